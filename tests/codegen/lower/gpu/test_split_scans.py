"""Scans of few rows over the whole chip: every block scans a part of a row from the totals of the parts before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.plan.fit_plan import fit_plan
from codegen.plan.gpu.nest_candidates import nest_candidates
from codegen.plan.gpu.plan_time import plan_time
from codegen.poly.analyse import analyse
from codegen.simt import FindingKind, Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from ir.index.expr import ZERO
from ir.kernel.gpu.dump import kernel_dump
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.meeting import workspace_hazards
from ir.kernel.gpu.nodes import AwaitTicket, Barrier, Fence, TakeTicket
from ir.kernel.gpu.verify import verify
from ir.plan.gpu_nest import GpuRowsPlan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.playback import play_region
from ir.region.region import Definition, Op, Region, Yield
from ir.serde import from_json, to_json
from tests.codegen.lower.gpu.test_gpu_nests import running_share
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.played import Arrays, Case, assert_played
from tests.support.gpu.edit import changed, without
from tests.support.gpu.emulated import launched, values_of
from tests.support.gpu.nest_kernels import GpuCase, check, compiled, gpu_cases
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.gpu.workspace import workspace_of
from tests.support.programs import regions as r
from tests.support.sampling import every, first_few
from tests.support.stages.plan_class import plan_of

FLOATS = ("fp16", "bf16", "fp32", "fp64")
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")


def scan(n: int, fn: str = "sum", dtype: str = "fp32", result: str | None = None) -> Region:
    """Y = X accumulated."""
    out = result or dtype
    body = [Definition("S", Op("scan", fn, out, (n,), (r.same("X", (n,)),), axis=0))]
    return r.region(f"{fn}_{dtype}", [r.buffer("X", (n,), dtype)], body, (n,), dtype=out)


def columns(n: int, width: int) -> Region:
    """Y[:, j] = relu(cumsum(|X[:, j]|) · w[:, j]) of every column: a prologue and an epilogue, far neighbours."""
    over = (n, width)
    body = [
        r.ewise("A", "abs", over, r.same("X", over)),
        Definition("S", Op("scan", "sum", "fp32", over, (r.same("A", over),), axis=0)),
        r.ewise("P", "mul", over, r.same("S", over), r.same("w", over)),
        r.ewise("R", "relu", over, r.same("P", over)),
    ]
    return r.region("columns", [r.buffer("X", over), r.buffer("w", over)], body, over)


def spread(rows: int, n: int) -> Region:
    """Y = cummax(exp(X)) − cumsum(X), and the running sums themselves: two scans and two results, a dear prologue."""
    over = (rows, n)
    body = [
        r.ewise("E", "exp", over, r.same("X", over)),
        Definition("G", Op("scan", "max", "fp32", over, (r.same("E", over),), axis=1)),
        Definition("S", Op("scan", "sum", "fp32", over, (r.same("X", over),), axis=1)),
        r.ewise("D", "sub", over, r.same("G", over), r.same("S", over)),
    ]
    one = r.region("spread", [r.buffer("X", over)], body, over)
    more = Yield("S", "S_out", r.index_map(over, "i0", "i1"))
    return msgspec.structs.replace(one, outputs=(*one.outputs, r.buffer("S_out", over)), yields=(*one.yields, more))


def padded(n: int) -> Region:
    """Y = cumsum of X between zeros, so that blocks read the padding."""
    body = [
        r.ewise("C", "copy", (n,), r.read("X", (n,), "i0 - 100", pad={0: n - 300})),
        Definition("S", Op("scan", "sum", "fp32", (n,), (r.same("C", (n,)),), axis=0)),
    ]
    return r.region("padded", [r.buffer("X", (n - 300,))], body, (n,))


REGIONS = [scan(9001), columns(2500, 3), spread(2, 5003), padded(4500), r.cumsum(3, 4096)]


def inputs_of(region: Region) -> Arrays:
    """Random numbers; those of products are near 1, so that products neither vanish nor overflow."""
    values = values_of(region)
    if any(let.op.fn == "prod" for let in region.body):
        values = {
            name: (1 + array / 1024).astype(array.dtype)
            if array.dtype.kind == "f" or "bf" in str(array.dtype)
            else array
            for name, array in values.items()
        }
    return values


def is_split(case: GpuCase) -> bool:
    return isinstance(case.plan, GpuRowsPlan) and case.plan.rows.split > 1


def split_cases(regions: Sequence[Region], step: int = 1) -> list[GpuCase]:
    return [case for case in gpu_cases(regions) if is_split(case)][::step]


def by_hand(region: Region, /, number: int = 0, **fields: object) -> GpuCase:
    """The kernel `number` of a plan with other fields of its rows than the planner's."""
    core = analyse(region).core
    plan = next(plan for plan, _ in nest_candidates(region, core, A100, most=99) if isinstance(plan, GpuRowsPlan))
    scans = tuple(let.name for let in region.body if let.op.kind == "scan")
    rows = {"rows.height": 1, "rows.team": 32, "rows.scans": scans, "rows.keep": "none", "rows.dear": ()}
    other = with_fields(plan, **{**rows, **{f"rows.{name}": value for name, value in fields.items()}})
    kernel = lower_gpu_nest(fit_plan(region, core, other), other, f"eq_k{number}")
    verify(kernel)
    return Case(region, other, kernel)


def check_all(cases: Sequence[GpuCase], orders: Sequence[Order] = tuple(Order)) -> None:
    kernels = compiled(cases)
    for case in cases:
        check(kernels, case, inputs_of(case.region), orders=orders)


@every(3)
def test_parts_of_scans_are_playback_in_every_order(step: int) -> None:
    cases = split_cases(REGIONS)
    assert {case.region.name for case in cases} == {case.name for case in REGIONS}
    loaded_twice = [by_hand(one, number + 900, split=3, team=64) for number, one in enumerate(REGIONS)]
    check_all([*cases[::step], *loaded_twice])


@pytest.mark.slow
def test_every_scan_of_every_dtype() -> None:
    """Integers wrap, and have the bits of playback; a maximum of bools is whether any of them holds."""
    same = [scan(700, fn, dtype) for fn in ("sum", "prod", "max") for dtype in (*FLOATS, *INTEGERS)]
    wider = [scan(700, "sum", "i8", "i64"), scan(700, "sum", "fp16", "fp32"), scan(700, "max", "bool")]
    cases = [
        by_hand(one, number, split=(2, 3, 6)[number % 3], keep=("none", "reg")[number % 2])
        for number, one in enumerate([*same, *wider])
    ]
    check_all(cases, (Order.RANDOM,))


def test_parts_of_every_size() -> None:
    """Of one turn, of one element beyond a turn, and more parts than threads, so that a thread waits for several."""
    sizes = [(33, 2), (64, 2), (65, 3), (32 * 9, 9), (32 * 9 - 31, 9), (32 * 40 + 1, 41), (32 * 70, 70)]
    check_all([by_hand(scan(n), number, split=split) for number, (n, split) in enumerate(sizes)])


def test_whole_numbers_have_one_answer_in_all_plans() -> None:
    """Sums of whole numbers in fp32 are exact, so that every part must be where it belongs."""
    one = scan(6007)
    inputs = {"X": np.random.default_rng(1).integers(-9, 9, 6007).astype(np.float32)}
    cases = [*split_cases([one], 2), by_hand(one, 77, split=188)]
    kernels = compiled(cases)
    for case in cases:
        report, got = launched(kernels, one, case.kernel, inputs, Order.RANDOM)
        report.require_clean()
        np.testing.assert_array_equal(got["Y"], np.cumsum(inputs["X"]))


@pytest.mark.parametrize("fn", ["sum", "max"])
def test_a_number_that_is_not_one_reaches_the_parts_behind_it_alone(fn: str) -> None:
    one = scan(2000, fn)
    cases = [by_hand(one, 0, split=6), by_hand(one, 1, split=4, keep="reg", team=64)]
    inputs = inputs_of(one)
    inputs["X"][[800, 1999]] = np.nan
    inputs["X"][10] = -np.inf
    wanted = play_region(one, inputs)
    assert np.isnan(wanted["Y"][800:]).all()
    kernels = compiled(cases)
    for case in cases:
        report, got = launched(kernels, one, case.kernel, inputs)
        report.require_clean()
        assert_played(one, inputs, got, wanted, case)


@pytest.mark.slow
def test_bits_do_not_depend_on_the_run() -> None:
    [case] = split_cases([scan(50_000)])[:1]
    kernels = compiled([case])
    inputs = inputs_of(case.region)
    runs = [
        launched(kernels, case.region, case.kernel, inputs, order, seed)[1]["Y"] for order in Order for seed in (1, 2)
    ]
    assert all(np.array_equal(runs[0], other) for other in runs[1:])


def test_a_long_scan_takes_the_whole_chip() -> None:
    """2²⁰ elements, of every dtype; one row of them is the best plan where rows are many."""
    for one in (scan(1 << 20), scan(1 << 20, "max", "i8"), scan(1 << 20, "prod", "fp64"), r.cumsum(4, 1 << 18)):
        [best] = gpu_cases([one], most=1)
        assert is_split(best), one.name
        assert best.kernel.grid[0] * best.kernel.grid[1] >= A100.units
        assert plan_to_schedule(best.plan).layout_hints["split_scan"] == plan_of(best.plan, GpuRowsPlan).rows.split
    assert not any(map(is_split, gpu_cases([r.cumsum(4096, 512)])))


def test_the_price_of_parts_is_far_below_that_of_one_block() -> None:
    one = scan(1 << 20)
    priced = nest_candidates(one, analyse(one).core, A100, most=99)
    times: dict[bool, float] = {}
    for plan, work in priced:
        is_in_parts = isinstance(plan, GpuRowsPlan) and plan.rows.split > 1
        times[is_in_parts] = min(plan_time(work, A100).whole, times.get(is_in_parts, math.inf))
    assert times[True] * 40 < times[False]


def test_what_is_not_split() -> None:
    """Sums in index order; scans beside a reduction of the row; rows of no element, of one and of a few."""
    assert not any(map(is_split, gpu_cases([scan(1 << 16)], ordered=True)))
    assert not any(map(is_split, gpu_cases([running_share(2, 1 << 14), scan(0), scan(1), scan(31)])))
    assert any(map(is_split, gpu_cases([scan(1 << 16, dtype="i32")], ordered=True))), "integers have no order"
    with pytest.raises(EqsatError) as refused:
        by_hand(running_share(2, 4000), split=2)
    assert refused.value.diagnostics[0].kind is Kind.UNSUPPORTED_OP


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"split": 1000}, Kind.MALFORMED_GRAPH),
        ({"split": 2, "scans": ()}, Kind.MALFORMED_GRAPH),
        ({"split": 2, "height": 4}, Kind.UNSUPPORTED_OP),
        ({"split": 2, "team": 16, "height": 2}, Kind.UNSUPPORTED_OP),
        ({"split": 2, "keep": "smem"}, Kind.UNSUPPORTED_OP),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(fields: dict[str, Any], kind: Kind) -> None:
    with pytest.raises(EqsatError) as refused:
        by_hand(r.cumsum(3, 700), **fields)
    assert refused.value.diagnostics[0].kind is kind


def test_nothing_of_the_waiting_is_spare() -> None:
    """Without a fence, a ticket, the wait, or the barrier behind it, the verifier refuses the kernel, and the emulator
    finds what is missing."""
    case = by_hand(scan(700), split=6)
    kernel = case.kernel
    broken = {
        "no fence of the part": without(kernel, Fence, 0),
        "no ticket of the part": without(kernel, TakeTicket, 1),
        "no wait": without(kernel, AwaitTicket, 0),
        "no fence behind the wait": without(kernel, Fence, 1),
    }
    assert all(map(workspace_hazards, broken.values()))
    broken["counts too far"] = changed(kernel, AwaitTicket, 0, count=lambda stmt: stmt.count.shift(1))
    expected = {
        "no fence of the part": FindingKind.BLOCK_RACE,
        "no ticket of the part": FindingKind.DEADLOCK,
        "no wait": FindingKind.BLOCK_RACE,
        "no fence behind the wait": FindingKind.BLOCK_RACE,
        "counts too far": FindingKind.COUNTER_LEFT,
    }
    texts = [
        cuda_text(mutant).replace(f" {mutant.name}(", f" eq_b{number}(")
        for number, mutant in enumerate(broken.values())
    ]
    kernels = compile_kernels("\n".join(texts))
    for number, (name, mutant) in enumerate(broken.items()):
        arrays = [*inputs_of(case.region).values(), np.zeros(700, np.float32), *workspace_of(mutant)]
        for order in Order:
            report = kernels[f"eq_b{number}"].launch(mutant.grid, arrays, shared_bytes=mutant.shared_bytes, order=order)
            assert expected[name] in report.kinds, (name, order, report.findings)
            arrays[2:] = workspace_of(mutant)


def test_what_the_verifier_asks_of_a_wait() -> None:
    kernel = by_hand(scan(700), split=6).kernel
    for message, broken in {
        "counters S_of_parts": changed(kernel, AwaitTicket, 0, buffer="S_of_parts"),
        "axis 1": changed(kernel, AwaitTicket, 0, at=lambda stmt: (stmt.at[0], stmt.at[1].shift(2))),
        "AwaitTicket of none": changed(kernel, AwaitTicket, 0, count=ZERO),
    }.items():
        with pytest.raises(EqsatError, match=message):
            verify(broken)


def test_a_wait_is_printed_dumped_and_read_back() -> None:
    kernel = by_hand(scan(700), split=6).kernel
    assert from_json(to_json(kernel), GpuKernel) == kernel
    assert "await arrived[0, thread], ticket of -thread + 6\n" in str(kernel)
    assert "AwaitTicket" in str(kernel_dump(kernel)["gpu_ir"]["stmts"])


def test_barriers_around_the_number_of_a_part_are_needed() -> None:
    kernel = by_hand(scan(700), split=6).kernel
    with pytest.raises(EqsatError, match="barrier"):
        verify(without(kernel, Barrier, 0))


@pytest.mark.slow
@needs_nvrtc
@first_few(1, "arch", ["sm_80", "sm_90"])
def test_parts_of_scans_compile_without_spills(arch: str) -> None:
    large = [scan(1 << 20, dtype=dtype) for dtype in ("fp16", "fp32", "fp64")]
    cases = [case for case in gpu_cases([*large, spread(2, 1 << 18)], arch=arch) if is_split(case)][::3]
    for kernel in build("\n".join(cuda_text(case.kernel) for case in cases), arch).kernels:
        assert (kernel.spills, kernel.stack, kernel.lints) == (False, 0, ()), kernel.name


def test_dtypes_of_scans_are_all_tried() -> None:
    assert {*FLOATS, *INTEGERS, "bool"} == set(DTYPES)
