"""Rows that a task packs for all blocks of k at once: the same results, bit for bit, as rows packed block by block."""

from __future__ import annotations

import pytest

from codegen.plan.cpu import contraction_blocks
from ir.plan.cpu import PACKED_BEFORE, CpuContractionPlan, LoopOrder
from ir.region.region import Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.contraction_runs import Built, all_plans, one_of_each_kind, restricted, verify_provable
from tests.support.programs import regions
from tests.support.programs.narrow_regions import integer_product

REGIONS = {
    "matrix": regions.matmul((), 50, 70, 37),
    "transposed rows": regions.matmul((2,), 28, 40, 50, lhs_t=True),
    "convolution": regions.conv(2, 5, 20, (6, 7), 3, 1, 1),
    "epilogue": regions.gemm_bias_relu(40, 36, 20),
    "halves": regions.matmul((), 50, 40, 96, dtype="bf16"),
    "bytes": integer_product("i8", "u8", 50, 40, 192),
}


def choices(region: Region, isa: str | None) -> list[tuple[CpuContractionPlan, list[LoopOrder]]]:
    """Plans of each kind that pack the rows of short blocks of k, and the orders with all rows packed at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction_blocks, "BLOCK_K", 16)
        patch.setattr(contraction_blocks, "_CELL_DEPTHS", (64,))
        plans = all_plans(region, restricted(isa))
    plans = one_of_each_kind(
        (plan for plan in plans if plan.places[1 - plan.vector] == "packed" and plan.order == "knm"),
        lambda plan: (
            *(plan.vector, plan.places, plan.blocks.algorithm),
            *(plan.blocks.bm < 28, plan.blocks.bk < 20 or plan.blocks.bk == 64),
        ),
    )
    return [(plan, ["nkm", "mnk"] if plan.places[plan.vector] in PACKED_BEFORE else ["nkm"]) for plan in plans]


@pytest.mark.slow
@pytest.mark.parametrize("isa", [None, "avx2"])
def test_rows_packed_at_once_give_the_same_bits(isa: str | None) -> None:
    tried: list[tuple[Region, CpuContractionPlan]] = []
    wanted: list[int] = []
    for region in REGIONS.values():
        for plan, orders in choices(region, isa):
            first = len(tried)
            tried += [(region, plan), *((region, with_fields(plan, order=o, prefetch=False)) for o in orders)]
            wanted += [first] * (1 + len(orders))
    assert {plan.blocks.algorithm for _, plan in tried} >= {"outer", "pairs"} - ({"pairs"} if isa is None else set())
    assert any(plan.blocks.bk < 37 for _, plan in tried)
    built = Built(tried, restricted(isa))
    verify_provable(built, [plan for _, plan in tried])
    for i, (region, _) in enumerate(tried):
        inputs = values_of(region)
        assert_plays(built, i, inputs)
        got, alike = built.call(i, inputs), built.call(wanted[i], inputs)
        assert all(got[name].tobytes() == alike[name].tobytes() for name in got)
