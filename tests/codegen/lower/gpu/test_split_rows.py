"""Reductions of whole tensors and of few rows over the whole chip: the last of the blocks that share a row ends it."""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pytest

from codegen.compile.nvrtc import build
from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.simt import FindingKind, Order, compile_kernels
from codegen.text.gpu_to_cuda import cuda_text
from ir.diagnostics import EqsatError
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.meeting import workspace_hazards
from ir.kernel.gpu.nodes import Barrier, Fence, TakeTicket
from ir.kernel.gpu.verify import verify
from ir.kernel.nodes import walk
from ir.plan.gpu_nest import GpuRowsPlan
from ir.plan.plan import Plan
from ir.region.playback import play_region
from ir.region.region import Number, Region, Yield
from tests.support.cpu import played
from tests.support.cpu.changed_plan import sizes, with_fields
from tests.support.gpu.edit import without
from tests.support.gpu.emulated import values_of
from tests.support.gpu.nest_kernels import GpuCase, check, compiled, gpu_cases
from tests.support.gpu.nvrtc import needs_nvrtc
from tests.support.gpu.workspace import workspace_of
from tests.support.programs import regions
from tests.support.programs.regions import buffer, ewise, index_map, read, reduction, region, same
from tests.support.sampling import every, first_few
from tests.support.stages.plan_class import plan_of


def moments(rows: int, columns: int, dtype: str = "bf16") -> Region:
    """Of each row the mean and the root of the mean square, and its greatest element."""
    over = (rows, columns)
    body = [
        ewise("W", "cast", over, same("X", over)),
        ewise("Q", "mul", over, same("W", over), same("W", over)),
        reduction("S", "sum", over, 1, same("W", over)),
        reduction("T", "sum", over, 1, same("Q", over)),
        reduction("G", "max", over, 1, same("W", over)),
        ewise("M", "mul", (rows,), same("S", (rows,)), Number(1 / columns, "fp32")),
        ewise("N", "mul", (rows,), same("T", (rows,)), Number(1 / columns, "fp32")),
        ewise("R", "sqrt", (rows,), same("N", (rows,))),
    ]
    one = region("moments", [buffer("X", over, dtype)], body, (rows,), value="M")
    more = [Yield(name, f"{name}_out", index_map((rows,), "i0")) for name in ("R", "G")]
    outputs = (*one.outputs, *(buffer(result.buffer, (rows,)) for result in more))
    return msgspec.structs.replace(one, outputs=outputs, yields=(*one.yields, *more))


def counted(n: int) -> Region:
    """How many integers there are, and their sum, which wraps."""
    body = [reduction("R", "sum", (n,), 1, same("X", (n,)), "i32")]
    return region("counted", [buffer("X", (n,), "i32")], body, (), dtype="i32")


def columns(rows: int, count: int) -> Region:
    """Y[j] = sum over i of X[i, j]·w[i]."""
    over = (count, rows)
    body = [
        ewise("P", "mul", over, read("X", over, "i1", "i0"), read("w", over, "i1")),
        reduction("R", "sum", over, 1, same("P", over)),
    ]
    return region("columns", [buffer("X", (rows, count)), buffer("w", (rows,))], body, (count,))


REGIONS = [
    regions.total((20011,)),
    regions.total((37, 501), "max"),
    regions.total((4096, 8)),
    moments(3, 5003),
    counted(9000),
    columns(3001, 5),
]


def split_of(plan: Plan) -> int:
    return plan.rows.split if isinstance(plan, GpuRowsPlan) else 1


def split_cases(step: int) -> list[GpuCase]:
    cases = [case for case in gpu_cases(REGIONS) if split_of(case.plan) > 1]
    return cases[::step]


def check_all(cases: list[GpuCase]) -> None:
    kernels = compiled(cases)
    for case in cases:
        check(kernels, case, values_of(case.region), orders=tuple(Order))


@pytest.mark.slow
def test_parts_of_rows_are_playback_in_every_order() -> None:
    cases = split_cases(5)
    assert {case.region.name for case in cases} == {case.name for case in REGIONS}
    assert {plan_of(case.plan, GpuRowsPlan).rows.near for case in cases} == {True, False}
    check_all(cases)


@every(2)
def test_more_parts_of_rows_are_playback(step: int) -> None:
    check_all(split_cases(step))


@pytest.mark.slow
def test_teams_and_parts_of_every_size() -> None:
    """Rows of a few turns, so that the last part is one of them, or less."""
    cases: list[played.Case[GpuKernel, GpuRowsPlan]] = []
    for one in (moments(3, 700), regions.total((1999,)), columns(333, 40)):
        core = analyse(one).core
        rows = [case.plan for case in gpu_cases([one]) if isinstance(case.plan, GpuRowsPlan)]
        for tile, plan in {sizes(row): row for row in rows}.items():
            shared = with_fields(plan, **{"rows.split": 2 + tile[0] % 3, "rows.keep": "none", "rows.dear": ()})
            with contextlib.suppress(EqsatError):  # rows of fewer turns than that
                kernel = lower_gpu_nest(fit_plan(one, core, shared), shared, f"eq_k{len(cases)}")
                cases.append(played.Case(one, shared, kernel))
    assert len(cases) > 12
    assert min(case.plan.rows.team for case in cases) <= 32
    kernels = compiled(cases)
    for case in cases:
        verify(case.kernel)
        check(kernels, case, values_of(case.region))


def test_large_reductions_take_the_whole_chip_and_one_kernel() -> None:
    for one in (regions.total((1 << 24,)), moments(2, 1 << 20), columns(1 << 16, 64)):
        best = gpu_cases([one], most=1)[0]
        assert split_of(best.plan) > 1, one.name
        assert best.kernel.grid[0] * best.kernel.grid[1] >= 100


def test_what_may_not_be_split() -> None:
    """Sums in index order, rows in shared memory, and rows enough."""
    assert all(split_of(case.plan) == 1 for case in gpu_cases([regions.total((1 << 20,))], ordered=True))
    assert all(split_of(case.plan) == 1 for case in gpu_cases([regions.row_reduce(4096, 4096)]))
    one = regions.row_reduce(2, 1 << 16)
    plan = next(case.plan for case in gpu_cases([one]) if split_of(case.plan) > 1)
    for fields in ({"rows.split": 1000}, {"rows.keep": "smem"}):
        with pytest.raises(EqsatError):
            fit_plan(one, analyse(one).core, with_fields(plan, **fields))


@pytest.mark.slow
@pytest.mark.parametrize("team", ["near", "far"])
def test_nothing_of_the_meeting_is_spare(team: str) -> None:
    """A barrier before it is there where threads besides the first leave parts."""
    cases = [case for case in gpu_cases([moments(2, 4000)]) if split_of(case.plan) > 1]
    case = next(case for case in cases if plan_of(case.plan, GpuRowsPlan).rows.near == (team == "near"))
    kinds = [type(stmt) for stmt in walk(case.kernel.body)]
    broken = [without(case.kernel, Fence, 0), without(case.kernel, Fence, 1)]
    if team == "far":
        broken.append(without(case.kernel, Barrier, kinds[: kinds.index(TakeTicket)].count(Barrier) - 1))
    texts = [cuda_text(mutant).replace(f" {mutant.name}(", f" eq_b{number}(") for number, mutant in enumerate(broken)]
    kernels = compile_kernels("\n".join(texts))
    for number, mutant in enumerate(broken):
        assert workspace_hazards(mutant)
        for order in Order:
            outputs = [np.zeros(2, np.float32) for _ in case.region.outputs]
            arrays = [*values_of(case.region).values(), *outputs, *workspace_of(mutant)]
            report = kernels[f"eq_b{number}"].launch(mutant.grid, arrays, shared_bytes=mutant.shared_bytes, order=order)
            assert FindingKind.BLOCK_RACE in report.kinds, (number, order)


@pytest.mark.slow
@needs_nvrtc
@first_few(1, "arch", ["sm_80", "sm_90"])
def test_parts_of_rows_compile_without_spills(arch: str) -> None:
    large = [regions.total((1 << 24,)), moments(2, 1 << 20), columns(1 << 16, 64)]
    cases = [case for case in gpu_cases(large, arch=arch) if split_of(case.plan) > 1][::4]
    for kernel in build("\n".join(cuda_text(case.kernel) for case in cases), arch).kernels:
        assert (kernel.spills, kernel.stack, kernel.lints) == (False, 0, ()), kernel.name


def test_a_number_that_is_not_one_reaches_the_end() -> None:
    one = regions.total((4099,), "max")
    [case] = [case for case in gpu_cases([one]) if split_of(case.plan) > 1][:1]
    inputs = values_of(one)
    inputs["X"][4098] = np.nan
    assert np.isnan(play_region(one, inputs)["Y"])
    check(compiled([case]), case, inputs)
