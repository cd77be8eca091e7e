"""Rows that run together: the loops over their terms are shared, and each row is as it is alone."""

from __future__ import annotations

import math

import pytest
from msgspec import structs

from codegen.compile.machine import machine
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from ir.diagnostics import EqsatError, Kind
from ir.plan.cpu import CpuNestPlan, PlannedLoop
from ir.region.region import Region
from tests.support.cpu import nest_kernels
from tests.support.cpu.changed_plan import along, tiled, with_fields
from tests.support.cpu.played import random_inputs
from tests.support.programs import regions
from tests.support.programs.regions import buffer, ewise, read, reduction, region, same
from tests.support.stages.made_plans import nest_plan

LANES = machine().lanes
TARGET = nest_kernels.target(machine().arch)
SIZES = [(4, 17), (5, 130), (7, 33), (66, 40), (1, 19), (3, 1), (0, 40), (9, 0)]


def softmax(rows: int, terms: int, dtype: str = "fp32") -> Region:
    """Y = exp(X - max X) / Σ exp(X - max X) of rows: what a row keeps on chip is read after two of its sums."""
    over = (rows, terms)
    body = [
        reduction("m", "max", over, 1, same("X", over), dtype),
        ewise("d", "sub", over, same("X", over), read("m", over, "i0"), dtype=dtype),
        ewise("e", "exp", over, same("d", over), dtype=dtype),
        reduction("s", "sum", over, 1, same("e", over), dtype),
        ewise("y", "fdiv", over, same("e", over), read("s", over, "i0"), dtype=dtype),
    ]
    return region("softmax", [buffer("X", over, dtype)], body, over, dtype=dtype)


def log_sum(rows: int, terms: int) -> Region:
    """Y = log Σ exp(X - max X) + max X of rows."""
    over = (rows, terms)
    body = [
        reduction("m", "max", over, 1, same("X", over)),
        ewise("d", "sub", over, same("X", over), read("m", over, "i0")),
        ewise("e", "exp", over, same("d", over)),
        reduction("s", "sum", over, 1, same("e", over)),
        ewise("l", "log", (rows,), same("s", (rows,))),
        ewise("y", "add", (rows,), same("l", (rows,)), same("m", (rows,))),
    ]
    return region("log_sum", [buffer("X", over)], body, (rows,))


def groups(images: int, channels: int, pixels: int) -> Region:
    """Y = X - Σ X over channels and pixels, times a weight per channel: rows of several axes."""
    over, terms = (images, channels, pixels), (images, channels * pixels)
    body = [
        reduction("s", "sum", terms, 1, read("X", terms, "i0", f"i1 // {pixels}", f"i1 % {pixels}")),
        ewise("d", "sub", over, same("X", over), read("s", over, "i0")),
        ewise("y", "mul", over, same("d", over), read("w", over, "i1")),
    ]
    return region("groups", [buffer("X", over), buffer("w", (channels,))], body, over)


def padded(rows: int, terms: int) -> Region:
    """Rows of which the first and the last are padding, one of them among the rows of a step."""
    over = (rows, terms)
    body = [
        ewise("x", "neg", over, read("X", over, "i0 - 1", "i1", pad={0: rows - 2}, fill=0.5)),
        reduction("s", "max", over, 1, same("x", over)),
        ewise("y", "sub", over, same("x", over), read("s", over, "i0")),
    ]
    return region("padded", [buffer("X", (rows - 2, terms))], body, over)


def together(tried: Region, rows: int = 4) -> list[CpuNestPlan]:
    """The plans of a region that run through rows one by one, changed to take several at once."""
    core, shape = analyse(tried).core, tried.outputs[0].memref.shape
    results = []
    for plan, _ in nest_candidates(tried, core, nest_kernels.target(machine().arch)):
        if plan.part is not None or plan.row_loop is None:
            continue
        extents = [max(1, math.prod(shape[axis] for axis in loop.axes)) for loop in plan.loops]
        tiles = [-(-loop.tile // rows) * rows for loop in plan.loops]
        one_by_one = tiled(plan, *map(min, tiles, extents))
        tails = tuple(loop.name for loop in plan.loops)
        results.append(with_fields(one_by_one, rows=rows, threads=(), tails=tails))
    return results


@pytest.mark.slow
def test_each_row_is_as_it_is_alone() -> None:
    given = [softmax(*sizes) for sizes in SIZES]
    given += [softmax(21, 50, "fp16"), softmax(6, 33, "fp64"), groups(5, 3, 7), groups(9, 2, 40), padded(10, 37)]
    tried: list[nest_kernels.Case] = []
    for given_region in given:
        for plan in [plan for rows in (3, 4) for plan in together(given_region, rows)]:
            tried.append(nest_kernels.case(given_region, analyse(given_region).core, plan, f"eq_k{len(tried)}"))
    lib = nest_kernels.library(tried, machine())
    for one in tried:
        for nan in (True, False):
            nest_kernels.check(lib, one, random_inputs(one.region, nan=nan), at_end=nan)


def test_rows_are_shared_among_threads_in_whole_steps() -> None:
    cases = nest_kernels.cases([softmax(1030, 200), log_sum(4003, 100)], machine().arch)
    shared = [case for case in cases if case.plan.rows > 1 and case.plan.threads]
    assert {case.region.name for case in shared} == {"softmax", "log_sum"}
    lib = nest_kernels.library(shared, machine())
    for kernel_case in shared:
        inputs = random_inputs(kernel_case.region)
        nest_kernels.check(lib, kernel_case, inputs, threads=1)
        nest_kernels.check(lib, kernel_case, inputs, threads=2)


def test_the_rows_of_a_step_share_their_loops() -> None:
    tried = softmax(64, 16 * LANES)
    plan = next(plan for plan in together(tried) if along(plan) == "i1")
    text = c_text(lower_nest(fit_plan(tried, analyse(tried).core, plan), plan))
    single = with_fields(plan, rows=1)
    alone = c_text(lower_nest(fit_plan(tried, analyse(tried).core, single), single))
    assert text.count("for (") == alone.count("for (")
    assert text.count("eq_exp_f32(") == alone.count("eq_exp_f32(")  # one a row here, four chains of one row there
    assert text.count("eq_hmax_f32(") == 4 * alone.count("eq_hmax_f32(")


def test_short_rows_are_planned_together_and_others_are_not() -> None:
    assert ("i1", 4) in rows(softmax(64, 8 * LANES))
    assert ("", 4) in rows(log_sum(64, 8 * LANES))
    assert ("", 4) not in rows(regions.row_reduce(64, 8 * LANES))
    for tried in (softmax(64, 5000), softmax(2, 8 * LANES), softmax(64, LANES), regions.pointwise((64, 8 * LANES))):
        assert {number for _, number in rows(tried)} == {1}
    assert {number for _, number in rows(regions.cumsum(64, 100))} == {1}
    assert ("i0", 4) not in rows(softmax(64, 8 * LANES))


def test_rows_that_run_together_fit_in_the_first_level_cache() -> None:
    """Four rows of 16 KiB, read and written, took 113 us on a Zen 4 with 32 KiB; one at a time takes 69."""
    assert ("i1", 4) in rows(softmax(64, 768))
    assert ("i1", 2) in rows(softmax(64, 1024))
    assert ("i1", 4) in rows(softmax(64, 1024), l1_bytes=48 << 10)
    assert {number for _, number in rows(softmax(64, 2048))} == {1}


def test_rows_that_memory_bounds_run_one_at_a_time() -> None:
    """Several rows at once are several streams from memory: a layer norm of 4096 x 768 took 521 us so on a Zen 4, a row
    at a time takes 352."""
    few, many = (nest_candidates(one, analyse(one).core, TARGET) for one in (softmax(64, 512), groups(4096, 768, 1)))
    assert few[0][0].rows > 1
    assert many[0][0].rows == 1
    assert any(plan.rows > 1 for plan, _ in many)


def rows(tried: Region, l1_bytes: int = 32 << 10) -> set[tuple[str, int]]:
    """The loop with the lanes, and the rows that run together, of every plan that is compared."""
    target = structs.replace(TARGET, l1_bytes=l1_bytes)
    return {(along(plan), plan.rows) for plan, _ in nest_candidates(tried, analyse(tried).core, target)}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"rows": 0}, Kind.MALFORMED_GRAPH),
        ({"tails": ()}, Kind.ALIGNMENT_MISMATCH),
        ({"loops": (PlannedLoop((0,), 6), PlannedLoop((1,), 40)), "threads": (0,)}, Kind.ALIGNMENT_MISMATCH),
    ],
)
def test_a_register_tile_that_makes_no_sense_is_refused(changes: dict[str, object], kind: Kind) -> None:
    tried = softmax(10, 40)
    plan = nest_plan(10, 40, lanes=1, width=LANES, arch=machine().arch, rows=4, tails=("i0", "i1"))
    lower_nest(fit_plan(tried, analyse(tried).core, plan), plan)
    with pytest.raises(EqsatError) as caught:
        fit_plan(tried, analyse(tried).core, with_fields(plan, **changes))
    assert caught.value.kind is kind


def test_scans_and_split_reductions_have_one_row_at_a_time() -> None:
    scan = regions.cumsum(40, 40)
    plan = nest_candidates(scan, analyse(scan).core, nest_kernels.target(machine().arch))[0][0]
    wrong = with_fields(plan, rows=4)
    with pytest.raises(EqsatError, match="one row at a time"):
        fit_plan(scan, analyse(scan).core, wrong)
