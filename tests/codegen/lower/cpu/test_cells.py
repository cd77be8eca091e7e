"""Contractions of narrow integers by cells in vector registers, every plan of the planner, against region playback."""

from __future__ import annotations

from typing import Any

import pytest

from ir.diagnostics import Kind
from ir.plan.cpu import Blocks, CpuContractionPlan, OperandPlace
from ir.region.region import Region
from ir.target import VNNI
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.contraction_runs import Built, all_plans, assert_refused, calls_in, verify_provable
from tests.support.cpu.nest_kernels import required
from tests.support.programs import regions
from tests.support.programs.narrow_regions import (
    image_around,
    integer_convolution,
    integer_product,
    narrow,
    with_constant,
)

ARCHES = ("sse2", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "amx")

REGIONS = {
    "whole": integer_product("u8", "i8", 64, 96, 128),
    "odd": integer_product("u8", "i8", 37, 129, 67),
    "signed": integer_product("i8", "i8", 37, 70, 130),
    "unsigned": integer_product("u8", "u8", 37, 70, 130),
    "signed by unsigned": integer_product("i8", "u8", 64, 64, 64),
    "few rows": integer_product("u8", "i8", 5, 100, 70),
    "one row": integer_product("u8", "i8", 1, 100, 64),
    "one column": integer_product("u8", "i8", 50, 1, 64),
    "one of all": integer_product("i8", "i8", 1, 1, 1),
    "three terms": integer_product("i8", "i8", 20, 20, 3),
    "no terms": integer_product("i8", "i8", 20, 20, 0),
    "no rows": integer_product("i8", "i8", 0, 20, 8),
    "batch": narrow(regions.matmul((2, 3), 17, 18, 19, dtype="i32"), "u8", "i8"),
    "transposed columns": narrow(regions.matmul((2,), 33, 34, 64, rhs_t=True, dtype="i32"), "u8", "i8"),
    "transposed rows": narrow(regions.matmul((2,), 33, 34, 65, lhs_t=True, dtype="i32"), "i8", "i8"),
    "transposed output": narrow(regions.matmul((2,), 33, 34, 64, rhs_t=True, out_t=True, dtype="i32"), "i8", "u8"),
    "shared columns": narrow(regions.matmul((3,), 20, 40, 60, share_rhs=True, dtype="i32"), "u8", "i8"),
    "constant rows": with_constant(integer_product("i8", "i8", 100, 70, 77), "A"),
    "constant columns": with_constant(integer_product("u8", "i8", 100, 70, 77), "B"),
    "long": integer_product("u8", "u8", 20, 40, 5000),
    "image": narrow(integer_convolution(), "u8", "i8"),
    "signed image": narrow(integer_convolution(), "i8"),
    "image around 128": image_around(128, cast=False),
    "widened image around 128": image_around(128, cast=True),
    "image around a number that u8 lacks": image_around(-1, cast=True),
}

NUMBERS = {"one row", "one column", "one of all", "no terms", "no rows", "image around a number that u8 lacks"}
"""Regions without rows, columns or terms, and of numbers that no byte holds: vectors of numbers multiply these."""


def cell_plans(region: Region, arch: str) -> list[CpuContractionPlan]:
    """All plans of cells in vector registers that the planner compares."""
    return [plan for plan in all_plans(region, required(arch)) if plan.blocks.algorithm in ("pairs", "quads")]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHES)
def test_plans_play(arch: str) -> None:
    """One plan of each kind; integers are exact, and their sums wrap."""
    kinds: dict[tuple[Any, ...], tuple[str, CpuContractionPlan]] = {}
    planned = set()
    for name, region in REGIONS.items():
        for plan in cell_plans(region, arch):
            planned.add(name)
            blocks = plan.blocks
            kind = (name, plan.vector, plan.places, plan.order, blocks.mr > 4, blocks.nr > blocks.lanes, plan.prefetch)
            kinds.setdefault((*kind, blocks.bk < region.body[0].op.domain[-1]), (name, plan))
    assert set(REGIONS) - planned == NUMBERS
    cases = list(kinds.values())
    assert {plan.blocks.algorithm for _, plan in cases} == {"quads" if arch in VNNI else "pairs"}
    built = Built([(REGIONS[name], plan) for name, plan in cases], required(arch))
    verify_provable(built, [plan for _, plan in cases])
    for i, (name, _) in enumerate(cases):
        assert_plays(built, i, values_of(REGIONS[name], seed=i))


def test_cells_multiply_in_the_kernel() -> None:
    """Rows of the same sign as the columns get a bias, and a further row of products takes it out again."""
    for name, rows in (("whole", 0), ("signed", 1)):
        plan = next(plan for plan in cell_plans(REGIONS[name], "avx512_vnni") if plan.blocks.nr == 32)
        (kernel,) = Built([(REGIONS[name], plan)], required("avx512_vnni")).kernels()
        assert len(calls_in(kernel, "dot_quads")) == (plan.blocks.mr + rows) * 2
        assert " : cell]" in str(kernel)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "i16", "i32"])
def test_other_dtypes_have_no_cells_in_vector_registers(dtype: str) -> None:
    assert not cell_plans(regions.matmul((), 64, 64, 64, dtype=dtype), "avx512_vnni")


REFUSED: dict[str, tuple[str, dict[str, Any], Kind, str]] = {
    "another machine": ("whole", {"arch": "avx512"}, Kind.UNKNOWN_TARGET, "avx512 has no products of four bytes"),
    "cut cells": (
        "whole",
        {"blocks": Blocks(8, 32, 64, 96, 66, 16, "quads"), "tails": ("k",)},
        Kind.ALIGNMENT_MISMATCH,
        "no whole number of cells",
    ),
    "columns in memory": (
        "whole",
        {"operands": (OperandPlace("A", "memory"), OperandPlace("B", "memory")), "order": "mnk"},
        Kind.UNSUPPORTED_OP,
        "products of quads can not load rows from memory and columns from memory",
    ),
    "rows with a bias in memory": (
        "signed",
        {"operands": (OperandPlace("A", "memory"), OperandPlace("B", "packed"))},
        Kind.UNSUPPORTED_OP,
        "can not load rows from memory",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_does_not_fit_is_refused(case: str) -> None:
    name, changes, kind, message = REFUSED[case]
    region = REGIONS[name]
    assert_refused(region, with_fields(cell_plans(region, "avx512_vnni")[0], **changes), kind, message)


def test_every_tile_and_order_plays() -> None:
    """Tiles of one to four vectors, blocks of k, and both orders of loops, where rows are read from memory."""
    region = REGIONS["whole"]
    plan = next(plan for plan in cell_plans(region, "avx512_vnni") if "memory" in plan.places)
    cases = [
        with_fields(plan, order=order, blocks=Blocks(mr, nr, 2 * mr, 2 * nr, bk, 16, "quads"), tails=tails)
        for mr, nr in [(16, 16), (4, 32), (8, 48), (2, 64)]
        for bk in (128, 32)
        for order in ("knm", "nkm")
        for tails in [("n",) if 96 % nr else ()]
    ]
    built = Built([(region, case) for case in cases], required("avx512_vnni"))
    for i in range(len(cases)):
        assert_plays(built, i, values_of(region))
