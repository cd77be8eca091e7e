"""Contractions by matrix registers (AMX), every plan of the planner, against region playback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.plan.cpu import contraction_candidates
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from ir.diagnostics import EqsatError, Kind
from ir.kernel.cpu.nodes import MatrixMultiply
from ir.kernel.nodes import walk
from ir.plan.cpu import Blocks, CpuContractionPlan, OperandPlace
from ir.region.playback import play_region
from ir.region.region import Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.contraction_runs import Built, all_plans, assert_refused, target_of, verify_provable
from tests.support.cpu.nest_kernels import required
from tests.support.programs import regions
from tests.support.programs.bf16_regions import BF16_REGIONS, widened_operand
from tests.support.programs.narrow_regions import integer_convolution, integer_product, narrow


@pytest.fixture(scope="module", autouse=True)
def _matrix_registers() -> None:
    required("amx")


REGIONS = BF16_REGIONS | {
    "transposed bytes": narrow(regions.matmul((), 50, 70, 130, lhs_t=True, dtype="i32"), "i8", "u8"),
    "several blocks of bytes": integer_product("i8", "u8", 70, 50, 1203),
    "bytes": integer_product("i8", "i8", 37, 70, 130),
    "unsigned bytes": integer_product("u8", "u8", 37, 70, 130),
    "signed by unsigned": integer_product("i8", "u8", 64, 64, 64),
    "unsigned by signed": integer_product("u8", "i8", 64, 64, 128),
    "bytes as sums": regions.matmul((), 20, 30, 100, dtype="i8"),
    "bytes of an image": narrow(integer_convolution(), "u8", "i8"),
}


UNPLANNED = {"one row", "one column", "one of all", "no terms"}
"""Regions without rows, columns or terms: vectors multiply these."""


def matrix_plans(region: Region) -> list[CpuContractionPlan]:
    """All plans of matrix registers that the planner compares."""
    return [plan for plan in all_plans(region, required("amx")) if plan.blocks.algorithm == "matrix"]


def test_every_plan_plays() -> None:
    cases = [(name, plan) for name, region in REGIONS.items() for plan in matrix_plans(region)]
    planned = {name for name, _ in cases}
    assert set(REGIONS) - planned == UNPLANNED
    places = {(plan.places[1 - plan.vector], plan.places[plan.vector]) for _, plan in cases}
    assert {rows for rows, _ in places} == {"memory", "packed", "const_pool"}
    assert {columns for _, columns in places} == {"packed", "packed_once", "const_pool"}
    built = Built([(REGIONS[name], plan) for name, plan in cases])
    verify_provable(built, [plan for _, plan in cases])
    for i, (name, _) in enumerate(cases):
        assert_plays(built, i, values_of(REGIONS[name]))


def test_every_tile_and_order_plays() -> None:
    """Tiles of one to four registers of sums, blocks of k, and all orders of loops that fit the places."""
    region = REGIONS["whole"]
    plan = next(plan for plan in matrix_plans(region) if "memory" in plan.places)
    tiles = [(32, 32), (32, 16), (16, 32), (16, 64), (16, 16), (8, 32)]
    cases = [
        with_fields(plan, order=order, blocks=Blocks(mr, nr, 2 * mr, 2 * nr, bk, 16, "matrix"), tails=tails)
        for mr, nr in tiles
        for bk in (256, 64)
        for order in ("knm", "nkm")
        for tails in [("n",) if 96 % nr else ()]
    ]
    built = Built([(region, case) for case in cases])
    for i in range(len(cases)):
        assert_plays(built, i, values_of(region))


def test_integers_have_the_bits_of_other_plans() -> None:
    """Also where sums overflow: products of 8-bit integers are exact, and sums wrap."""
    for name in ("bytes", "unsigned bytes", "signed by unsigned", "unsigned by signed", "bytes as sums"):
        region = REGIONS[name]
        inputs = values_of(region, seed=3)
        wanted = play_region(region, inputs)
        built = Built([(region, plan) for plan in matrix_plans(region)])
        for i in range(len(built.regions)):
            result = built.call(i, inputs)
            assert all(np.array_equal(result[output], wanted[output]) for output in wanted)


def test_infinities_reach_only_their_rows_and_columns() -> None:
    """Zeros stand behind the last term of both operands, so that no infinity is multiplied by what was there before."""
    for name in ("odd", "few rows", "epilogue", "transposed rows of many"):
        region = REGIONS[name]
        inputs = values_of(region)
        rows = inputs["A"].T if "transposed" in name else inputs["A"]
        rows[2, -1], rows[3, 0] = np.inf, np.nan
        inputs["B"][:, 7] = np.abs(inputs["B"][:, 7]) + 1
        wanted = play_region(region, inputs, wide=True)
        built = Built([(region, plan) for plan in matrix_plans(region)])
        for i in range(len(built.regions)):
            for output, values in built.call(i, inputs).items():
                numbers = values.astype(np.float64)
                assert np.array_equal(np.isfinite(numbers), np.isfinite(wanted[output]))


def test_matrix_registers_multiply_in_the_kernel() -> None:
    region = REGIONS["whole"]
    built = Built([(region, matrix_plans(region)[0])])
    (kernel,) = built.kernels()
    products = [stmt for phase in kernel.phases for stmt in walk(phase.body) if isinstance(stmt, MatrixMultiply)]
    assert len(products) == 4
    assert {product.dtypes for product in products} == {("bf16", "bf16")}
    assert "matrix 0 += bf16 matrix 4 · bf16 matrix 6" in str(kernel)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "i16", "fp64"])
def test_other_dtypes_have_no_matrix_plans(dtype: str) -> None:
    assert not matrix_plans(regions.matmul((), 64, 64, 64, dtype=dtype))


def test_sums_in_index_order_have_no_matrix_plans() -> None:
    core = analyse(REGIONS["whole"]).core
    target = target_of(required("amx"))
    plans = contraction_candidates.contraction_candidates(REGIONS["whole"], core, target, ordered=True)
    assert plans
    assert all(plan.blocks.algorithm == "outer" for plan, _ in plans)


def test_padding_that_bf16_lacks_stays_in_fp32() -> None:
    """0.1 is no bf16: the padding would be rounded with the operand."""
    assert matrix_plans(widened_operand(0.5))
    assert not matrix_plans(widened_operand(0.1))


REFUSED: dict[str, tuple[str, dict[str, Any], Kind, str]] = {
    "another machine": ("whole", {"arch": "avx512"}, Kind.UNKNOWN_TARGET, "has no matrix registers"),
    "too many registers": (
        "whole",
        {"blocks": Blocks(32, 96, 64, 96, 256, 16, "matrix")},
        Kind.ALIGNMENT_MISMATCH,
        "no whole matrix registers",
    ),
    "uneven rows": (
        "whole",
        {"blocks": Blocks(25, 32, 50, 32, 256, 16, "matrix")},
        Kind.ALIGNMENT_MISMATCH,
        "no whole matrix registers",
    ),
    "cut rows of terms": (
        "whole",
        {"blocks": Blocks(32, 32, 64, 32, 40, 16, "matrix"), "tails": ("k",)},
        Kind.ALIGNMENT_MISMATCH,
        "no whole number of cells",
    ),
    "columns in memory": (
        "whole",
        {"operands": (OperandPlace("A", "memory"), OperandPlace("B", "memory")), "order": "mnk"},
        Kind.UNSUPPORTED_OP,
        "can not load",
    ),
    "odd rows in memory": (
        "odd",
        {"operands": (OperandPlace("A", "memory"), OperandPlace("B", "packed"))},
        Kind.UNSUPPORTED_OP,
        "can not load",
    ),
    "sums in registers": ("whole", {"held": True}, Kind.UNSUPPORTED_OP, "take the sums from registers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_does_not_fit_is_refused(case: str) -> None:
    name, changes, kind, message = REFUSED[case]
    region = REGIONS[name]
    assert_refused(region, with_fields(matrix_plans(region)[0], **changes), kind, message)


def test_operands_that_matrix_registers_do_not_multiply_are_refused() -> None:
    region = regions.matmul((), 128, 96, 256)
    with pytest.raises(EqsatError, match="do not multiply"):
        fit_plan(region, analyse(region).core, matrix_plans(REGIONS["whole"])[0])
