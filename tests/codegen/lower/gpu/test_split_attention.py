"""Streams whose terms several blocks share, under the emulator: parts of odd lengths, parts that see nothing, every way
out, the same bits whichever block comes last; and longer rings."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.plan.gpu.stream_parts import stream_parts
from codegen.plan.gpu.stream_tiling import split_stream_tile, stream_turns
from codegen.plan.stream_view import StreamView, stream_view
from codegen.poly.analyse import checked_core
from codegen.simt import FindingKind, Order, Report, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100, H100
from ir.diagnostics import EqsatError
from ir.kernel.gpu.kernel import COUNTER, GpuKernel
from ir.kernel.gpu.meeting import workspace_hazards
from ir.kernel.gpu.nodes import Barrier, CommitGroup, Fence, SyncWarp, TakeTicket, WaitGroup
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.gpu import GpuStreamPlan
from ir.region.playback import play_region
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness
from tests.codegen.lower.gpu.test_attention import odd_rows, shifted
from tests.support.cpu.changed_plan import sizes, with_fields
from tests.support.gpu.edit import without
from tests.support.gpu.emulated import Emulated, assert_near, lowered, values_of
from tests.support.gpu.emulated import stream_plans_of as plans_of
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.gpu.workspace import workspace_of
from tests.support.programs.stream_regions import attention, classifier_log_sum_exp, weighted_rows

REGIONS = [
    attention(2, 1, 300, 16, 16, dtype="bf16"),
    attention(3, 5, 333, 16, 24, causal=True, dtype="fp16"),
    attention(4, 3, 257, 16, 16, group=2, bias=True, mask=True, dtype="bf16"),
    attention(1, 20, 400, 40, 72, keys_first=True, fn="exp2", dtype="bf16"),
    attention(1, 1, 260, 6, 300, dtype="bf16"),
    attention(1, 1, 1000, 1, 1, dtype="fp16"),
    attention(1, 3, 300, 8, 8),
    attention(1, 2, 300, 9, 7, key_rows=True, causal=True),
    attention(1, 2, 280, 8, 8, dtype="fp64", acc="fp64"),
    classifier_log_sum_exp(3, 300, 8),
    weighted_rows(2, 301, 12),
]
"""Terms that no tile divides, one row, grouped queries, masks, columns of several blocks, no product, no scores."""


def split_of(plan: GpuStreamPlan) -> int:
    return plan.tile.split


def split_plans(one: Region, most: int = 99) -> list[GpuStreamPlan]:
    """Plans of several numbers of parts, the first of each."""
    plans = [plan for plan, _ in plans_of(one)]
    return list({split_of(plan): plan for plan in reversed(plans) if split_of(plan) > 1}.values())[:most]


def parted(one: Region, plan: GpuStreamPlan, split: int, stages: int | None = None) -> GpuStreamPlan:
    """The plan with so many parts, whose results are not staged."""
    tile = split_stream_tile(_view(one), plan.tile, split, stages or plan.tile.scores.stages)
    return with_fields(plan, **{"tile": tile, "places.parts": "z", "parts": stream_parts(_view(one), tile)})


def turns_of(one: Region, plan: GpuStreamPlan) -> tuple[int, int]:
    return stream_turns(_view(one), plan.tile)


def _view(one: Region) -> StreamView:
    view = stream_view(one, checked_core(one))
    assert view is not None
    return view


@pytest.mark.slow
def test_parts_play_the_region_in_every_order() -> None:
    cases = [(one, plan) for one in REGIONS for plan in split_plans(one, 2)]
    assert {str(one) for one, _ in cases} == {str(one) for one in REGIONS}
    uneven = [one for one, plan in cases if turns_of(one, plan)[0] % turns_of(one, plan)[1]]
    assert uneven, "none has parts of two lengths"
    emulated = Emulated(cases)
    for number in range(len(cases)):
        emulated.assert_plays(number, tuple(Order) if number % 2 else (Order.RANDOM, Order.REVERSE))


@pytest.mark.slow
def test_parts_of_parts() -> None:
    """Many parts are joined in two steps, the last group of which is smaller."""
    cases = []
    for one in (attention(1, 16, 1500, 64, 64, dtype="bf16"), attention(2, 5, 1501, 16, 80, mask=True, dtype="bf16")):
        plan = next(plan for plan in split_plans(one) if (plan.tile.lead.bm, plan.tile.terms) == (16, 16))
        cases += [(one, parted(one, plan, split)) for split in (94, 47)]
    for one, plan in cases:
        tickets = [buffer for buffer in lowered(one, plan).workspace if buffer.dtype == COUNTER]
        assert len(tickets) == 2, "of the groups, and of what they come to"
        assert split_of(plan) % tickets[0].shape[-1], "the last group is as large as the others"
    emulated = Emulated(cases)
    for number in range(len(cases)):
        emulated.assert_plays(number, tuple(Order))


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_parts_shorter_than_the_ring(stages: int) -> None:
    """17 turns of 16 terms, for blocks of 1 to 9 turns each."""
    one = attention(1, 5, 261, 16, 16, mask=True, dtype="bf16")
    plan = next(plan for plan in split_plans(one) if sizes(plan) == (16, 16, 16))
    results = [parted(one, plan, split, stages) for split in (2, 4, 9, 17)]
    emulated = Emulated([(one, plan) for plan in results])
    assert [turns_of(one, plan) for plan in results] == [(17, 9), (17, 5), (17, 2), (17, 1)]
    for number in range(len(results)):
        emulated.assert_plays(number)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_parts_that_see_nothing(dtype: str) -> None:
    """Of all terms, or of a part of them; NaN and ∞ in one part reach the whole row."""
    one = attention(3, 6, 300, 8, 8, mask=True, dtype=dtype)
    inputs = odd_rows(one, 200)
    inputs["K"][2, 299] = np.nan
    inputs["K"][2, 299, 0] = 1.0
    inputs["Q"][2, 2:, 1:] = 0.0
    wanted = play_region(one, inputs, wide=True)["O"]
    assert np.isnan(wanted[0]).all()
    assert np.isnan(wanted[2]).all()
    assert np.isfinite(wanted[1]).all()
    plans = split_plans(one, 2)
    emulated = Emulated([(one, plan) for plan in plans])
    for number in range(len(plans)):
        for order in Order:
            report, outputs = emulated.run(number, inputs, order)
            report.require_clean()
            assert_near(outputs["O"].astype(np.float64), wanted, {"bf16": 1e-2, "fp32": 1e-5}[dtype], str(one))


@pytest.mark.slow
def test_parts_beyond_what_rows_see() -> None:
    """Where hidden terms are left out each block makes one turn at least, and rows that see nothing are 0 / 0."""
    cases = []
    for one in (shifted(40, 300, -33), shifted(9, 300, 120), shifted(3, 300, 297, dtype="fp32")):
        plans = [plan for plan, _ in plans_of(one, exactness=Exactness.RANGE) if plan.tile.lead.bm <= 32]
        assert all(plan.tile.stops for plan in plans)
        cases += [(one, parted(one, plan, 3)) for plan in plans[:: len(plans) // 2]]
    emulated = Emulated(cases)
    for number in range(len(cases)):
        emulated.assert_plays(number, (Order.RANDOM, Order.REVERSE))


def test_launches_follow_one_another_on_one_workspace() -> None:
    one = REGIONS[0]
    emulated = Emulated([(one, split_plans(one)[0])])
    [kernel] = emulated.kernels
    inputs, workspace, results = [*values_of(one).values()], workspace_of(kernel), []
    for order in Order:
        out = np.zeros(kernel.params[-1].shape, inputs[0].dtype)
        run = emulated.compiled[kernel.name].launch
        arrays = [*inputs, out, *workspace]
        run(kernel.grid, arrays, shared_bytes=kernel.shared_bytes, order=order, seed=4).require_clean()
        results.append(out)
    assert all(np.array_equal(result, results[0]) for result in results[1:])


# --- when -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [A100, H100], ids=lambda target: target.name)
def test_few_queries_take_the_whole_chip(target: Target) -> None:
    decodes = [
        attention(32, 1, 4096, 128, 128, dtype="bf16"),
        attention(32, 4, 32768, 128, 128, group=4, causal=True, dtype="bf16"),
        attention(1, 16, 131072, 64, 64, dtype="fp16"),
        attention(8, 1, 8192, 64, 64),
    ]
    for one in decodes:
        plan, work = plans_of(one, target)[0]
        assert split_of(plan) > 1
        assert work.occupancy > 0.75


def test_grids_that_are_large_enough_are_not_split() -> None:
    for one in (attention(64, 2048, 2048, 128, 128, dtype="bf16"), attention(2, 16, 64, 64, 64, dtype="bf16")):
        assert all(split_of(plan) == 1 for plan, _ in plans_of(one))


def test_longer_rings_are_candidates() -> None:
    assert {plan.tile.scores.stages for plan, _ in plans_of(attention(8, 16, 4096, 64, 64, dtype="bf16"))} >= {2, 3}
    assert {plan.tile.scores.stages for plan, _ in plans_of(attention(8, 16, 16, 64, 64, dtype="bf16"))} == {1}
    for target in (A100, H100):
        for _, work in plans_of(attention(8, 16, 4096, 256, 256, dtype="bf16"), target):
            assert work.scratch <= 163 * 1024


def test_the_plan_says_how_parts_are_joined() -> None:
    one = attention(1, 16, 1500, 64, 64, dtype="bf16")
    plan = next(plan for plan in split_plans(one) if (plan.tile.lead.bm, plan.tile.terms) == (16, 16))
    plan = parted(one, plan, 94)
    assert plan.parts is not None
    assert plan.parts.members < 94
    at_once = lowered(one, with_fields(plan, **{"parts.members": 94}))
    assert len(at_once.workspace) < len(lowered(one, plan).workspace)
    for fields in ({"parts": None}, {"parts.members": 95}, {"parts.together": 0}, {"parts.rows": 1}):
        with pytest.raises(EqsatError, match="parts"):
            lowered(one, with_fields(plan, **fields))


@pytest.mark.parametrize("split", [0, 12, 100])
def test_parts_without_terms_are_refused(split: int) -> None:
    """19 turns: 12 parts of 2 turns each would leave some none."""
    one = attention(1, 5, 300, 16, 16, dtype="bf16")
    plan = next(plan for plan, _ in plans_of(one) if sizes(plan) == (16, 16, 16))
    with pytest.raises(EqsatError, match="cannot share"):
        lowered(one, parted(one, plan, split))


# --- synchronisation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "split"),
    [
        (attention(1, 20, 300, 16, 16, dtype="bf16"), 0),
        (attention(1, 2, 300, 8, 8), 0),
        (classifier_log_sum_exp(3, 300, 8), 0),
        (attention(1, 16, 1500, 64, 64, dtype="bf16"), 47),
    ],
    ids=["halves", "floats", "row sums", "parts of parts"],
)
def test_no_synchronisation_is_spare(one: Region, split: int) -> None:
    """Without any one of them the kernel is refused, or the emulator finds what it was for."""
    plans = [plan for plan in split_plans(one) if not split or plan.tile.terms == 16]
    kernel = lowered(one, parted(one, plans[0], split) if split else plans[0])
    broken: list[GpuKernel] = []
    for kind in (Barrier, SyncWarp, WaitGroup, CommitGroup, Fence):
        for number in range(sum(isinstance(stmt, kind) for stmt in walk(kernel.body))):
            changed = msgspec.structs.replace(without(kernel, kind, number), name=f"eq_b{len(broken)}")
            try:
                verify(changed)
            except EqsatError:
                continue
            broken.append(changed)
    runs = compile_kernels("\n".join(map(cuda_text, broken))) if broken else {}
    for mutant in broken:
        assert _findings(one, mutant, runs[mutant.name].launch), mutant.name


def _findings(one: Region, kernel: GpuKernel, launch: Callable[..., Report]) -> set[FindingKind]:
    results: set[FindingKind] = set()
    for order in Order:
        outputs = [np.zeros(output.memref.shape, values_of(one)[one.inputs[0].name].dtype) for output in one.outputs]
        arrays = [*values_of(one).values(), *outputs, *workspace_of(kernel)]
        report = launch(kernel.grid, arrays, shared_bytes=kernel.shared_bytes, order=order)
        results |= {finding.kind for finding in report.findings}
    return results


@pytest.mark.slow
def test_nothing_of_the_meeting_is_spare() -> None:
    """Without a fence, or the barrier before it, the kernel is refused, and parts race."""
    one = attention(1, 20, 300, 16, 16, dtype="bf16")
    kernel = lowered(one, split_plans(one)[0])
    kinds = [type(stmt) for stmt in walk(kernel.body)]
    before = kinds[: kinds.index(TakeTicket)].count(Barrier) - 1
    broken = [without(kernel, Fence, 0), without(kernel, Fence, 1), without(kernel, Barrier, before)]
    broken = [msgspec.structs.replace(mutant, name=f"eq_b{number}") for number, mutant in enumerate(broken)]
    runs = compile_kernels("\n".join(map(cuda_text, broken)))
    for mutant in broken:
        assert workspace_hazards(mutant)
        assert FindingKind.BLOCK_RACE in _findings(one, mutant, runs[mutant.name].launch)


# --- compiled -------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_decode_compiles_without_spills(arch: str) -> None:
    target = A100 if arch == "sm_80" else H100
    ones = [
        attention(32, 1, 8192, 128, 128, group=4, dtype="bf16"),
        attention(8, 16, 65536, 64, 64, causal=True, dtype="fp16"),
        attention(4, 16, 16384, 256, 256, dtype="bf16"),
        attention(16, 1, 16384, 64, 64),
        classifier_log_sum_exp(4, 32000, 512),
    ]
    kernels = [lowered(one, plan, f"eq_k{i}") for i, one in enumerate(ones) for plan, _ in plans_of(one, target)[:1]]
    assert all(kernel.workspace for kernel in kernels)
    for kernel in build("\n".join(map(cuda_text, kernels)), arch).kernels:
        assert (kernel.spills, kernel.stack, kernel.lints) == (False, 0, ()), kernel.name
