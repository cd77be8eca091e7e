"""Split-K under the emulator: parts of odd lengths, every way out, the same bits whichever block comes last."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.plan.contraction_view import Contraction, contraction_of
from codegen.plan.gpu.contraction_tiling import turns_of
from codegen.poly.analyse import checked_core
from codegen.simt import FindingKind, Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from eqsat.cost.targets import A100
from ir.diagnostics import EqsatError
from ir.index.expr import ZERO
from ir.kernel.gpu.dump import kernel_dump
from ir.kernel.gpu.kernel import COUNTER, GpuKernel
from ir.kernel.gpu.meeting import workspace_hazards
from ir.kernel.gpu.nodes import AnyThread, Barrier, Fence, TakeTicket
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.gpu import ContractionTile, GpuContractionPlan
from ir.region.region import Region
from ir.serde import from_json, to_json
from ir.term.rule import Exactness
from tests.codegen.lower.gpu.test_contraction import nhwc, prologue, residual
from tests.support.cpu.changed_plan import with_fields
from tests.support.gpu.edit import changed, without
from tests.support.gpu.emulated import Emulated, lowered, values_of
from tests.support.gpu.emulated import contraction_plans_of as plans_of
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.gpu.workspace import workspace_of
from tests.support.programs import regions

matmul = regions.matmul
REGIONS = [
    matmul((), 64, 72, 1000, dtype="bf16"),
    matmul((), 33, 17, 777, dtype="fp16", lhs_t=True),
    matmul((2,), 5, 7, 1333, rhs_t=True),
    matmul((), 40, 24, 640, dtype="i8"),
    matmul((), 9, 11, 700, dtype="fp64"),
    residual(40, 72, 900),
    prologue(24, 40, 520),
    nhwc(1, 96, 20, 5),
    matmul((), 1, 40, 1200, dtype="bf16"),
    matmul((), 1, 1, 2000),
]
"""Terms that no tile divides, batches, integers, prologues, epilogues, several outputs, one row, one element."""


def split_of(plan: GpuContractionPlan) -> int:
    return plan.tile.split


def split_plans(one: Region, most: int = 99) -> list[GpuContractionPlan]:
    """A plan for each number of parts among the candidates."""
    return list({split_of(plan): plan for plan, _ in reversed(plans_of(one)) if split_of(plan) > 1}.values())[:most]


@pytest.mark.slow
def test_parts_play_the_region_in_every_order() -> None:
    cases = [(one, plan) for one in REGIONS for plan in split_plans(one, 2)]
    assert {one.name for one, _ in cases} == {one.name for one in REGIONS}
    assert any(turns_of(*_tiled(one, plan)) % split_of(plan) for one, plan in cases), "none has parts of two lengths"
    emulated = Emulated(cases)
    for number in range(len(cases)):
        emulated.assert_plays(number, tuple(Order))


def _tiled(one: Region, plan: GpuContractionPlan) -> tuple[Contraction, ContractionTile]:
    view = contraction_of(one, checked_core(one))
    assert view is not None
    return view, plan.tile


@pytest.mark.slow
def test_parts_shorter_than_the_ring() -> None:
    """16 turns of 64 for blocks of 1 to 6 turns each, with a ring of 4 stages."""
    one = matmul((), 20, 24, 1001, dtype="bf16")
    plan = next(plan for plan, _ in plans_of(one) if plan.tile.bk == 64 and plan.tile.stages == 4)
    cases = [(one, with_fields(plan, **{"tile.split": parts, "places.parts": "z"})) for parts in (3, 4, 6, 8, 16)]
    emulated = Emulated(cases)
    for number in range(len(cases)):
        emulated.assert_plays(number)


def test_launches_follow_one_another_on_one_workspace() -> None:
    """Counters are 0 again, and what parts hold from before is not read."""
    one = REGIONS[0]
    emulated = Emulated([(one, split_plans(one)[0])])
    [kernel] = emulated.kernels
    inputs, workspace = [*values_of(one).values()], workspace_of(kernel)
    results = []
    for order in Order:
        out = np.zeros(kernel.params[-1].shape, inputs[0].dtype)
        arrays = [*inputs, out, *workspace]
        emulated.compiled[kernel.name].launch(
            kernel.grid, arrays, shared_bytes=kernel.shared_bytes, order=order, seed=4
        ).require_clean()
        results.append(out)
    assert all(np.array_equal(result, results[0]) for result in results[1:])


def test_only_small_grids_of_sums_in_any_order_are_split() -> None:
    assert not split_plans(matmul((), 4096, 4096, 4096, dtype="bf16"))
    assert not split_plans(matmul((), 64, 64, 64, dtype="bf16")), "the terms are too few"
    small = matmul((), 64, 64, 4096)
    assert split_plans(small)
    assert all(split_of(plan) == 1 for plan, _ in plans_of(small, exactness=Exactness.EXACT))
    best = plans_of(matmul((), 256, 256, 8192, dtype="bf16"))[0]
    assert split_of(best[0]) > 1
    assert best[1].occupancy > 0.5, "of an A100's multiprocessors"
    assert A100.units == 108


@pytest.mark.parametrize("split", [0, 9, 100])
def test_parts_without_terms_are_refused(split: int) -> None:
    """16 turns of 64: 9 parts of 2 turns leave the last one none."""
    one = matmul((), 64, 64, 1024, dtype="bf16")
    plan = next(plan for plan, _ in plans_of(one) if plan.tile.bk == 64)
    with pytest.raises(EqsatError, match="cannot share"):
        lowered(one, with_fields(plan, **{"tile.split": split}))


@pytest.mark.slow
def test_nothing_of_the_meeting_is_spare() -> None:
    """Without a fence or a barrier the kernel is refused, and parts race; a counter that goes too far is left there."""
    one = matmul((), 33, 40, 700, dtype="bf16")
    kernel = lowered(one, split_plans(one)[0])
    broken = {f"fence {number}": without(kernel, Fence, number) for number in (0, 1)}
    [place] = [at for at, stmt in enumerate(walk(kernel.body)) if isinstance(stmt, TakeTicket)]
    before = sum(isinstance(stmt, Barrier) for stmt in list(walk(kernel.body))[:place])
    broken["barrier"] = without(kernel, Barrier, before - 1)
    broken["count"] = changed(kernel, TakeTicket, 0, count=lambda stmt: stmt.count.shift(1))
    for name, mutant in broken.items():
        assert bool(workspace_hazards(mutant)) == (name != "count"), name
    texts = {
        name: cuda_text(mutant).replace(" eq_k(", f" eq_{number}(")
        for number, (name, mutant) in enumerate(broken.items())
    }
    compiled = compile_kernels("\n".join(texts.values()))
    for number, name in enumerate(broken):
        inputs = values_of(one)
        arrays = [*inputs.values(), np.zeros((33, 40), inputs["A"].dtype), *workspace_of(kernel)]
        for order in Order:
            report = compiled[f"eq_{number}"].launch(kernel.grid, arrays, shared_bytes=kernel.shared_bytes, order=order)
            wanted = FindingKind.COUNTER_LEFT if name == "count" else FindingKind.BLOCK_RACE
            assert wanted in report.kinds, (name, order)
            arrays[-1][...] = 0


def test_what_the_verifier_asks_of_a_meeting() -> None:
    one = matmul((), 33, 40, 700, dtype="bf16")
    kernel = lowered(one, split_plans(one)[0])
    [tickets] = [buffer for buffer in kernel.workspace if buffer.dtype == COUNTER]
    for message, broken in {
        "counters parts": changed(kernel, TakeTicket, 0, buffer="parts"),
        "axis 0": changed(kernel, TakeTicket, 0, at=lambda stmt: (stmt.at[0].shift(tickets.shape[0]), *stmt.at[1:])),
        "of none": changed(kernel, TakeTicket, 0, count=ZERO),
        "needs a bool": changed(
            kernel, AnyThread, 0, value=lambda stmt: msgspec.structs.replace(stmt.value, dtype="i32")
        ),
    }.items():
        with pytest.raises(EqsatError, match=message):
            verify(broken)


def test_a_meeting_is_printed_dumped_and_read_back() -> None:
    one = matmul((), 33, 40, 700, dtype="bf16")
    kernel = lowered(one, split_plans(one)[0])
    assert from_json(to_json(kernel), GpuKernel) == kernel
    text, dump = str(kernel), kernel_dump(kernel)["gpu_ir"]
    for line in (
        "workspace tickets: counter",
        "fence\n",
        "ticket: i32 = ticket tickets[",
        "last = barrier, any comes_last",
    ):
        assert line in text, line
    assert [buffer["name"] for buffer in dump["workspace"]] == ["parts", "tickets"]
    assert any("AnyThread" in stmt for stmt in dump["stmts"])


@pytest.mark.exhaustive
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_parts_compile_without_spills(arch: str) -> None:
    models = [
        matmul((), 256, 256, 8192, dtype="bf16"),
        matmul((), 512, 512, 4096, dtype="fp16", lhs_t=True),
        matmul((), 300, 200, 5000),
        residual(128, 1024, 4096),
        nhwc(1, 512, 512, 7),
    ]
    kernels = [
        lowered(one, plan, f"eq_k{i}_{j}") for i, one in enumerate(models) for j, plan in enumerate(split_plans(one, 2))
    ]
    assert len(kernels) >= len(models)
    for kernel in build("\n".join(map(cuda_text, kernels)), arch).kernels:
        assert (kernel.spills, kernel.stack, kernel.lints) == (False, 0, ()), kernel.name
