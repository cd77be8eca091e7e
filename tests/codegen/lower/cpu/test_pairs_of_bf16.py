"""Contractions of bf16 by pairs in vector registers, every plan of the planner, against region playback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.plan.cpu import contraction_candidates
from codegen.poly.analyse import analyse
from ir.diagnostics import Kind
from ir.plan.cpu import CpuContractionPlan
from ir.region.playback import play_region
from ir.region.region import Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.contraction_runs import (
    Built,
    all_plans,
    assert_refused,
    calls_in,
    plans_of,
    target_of,
    verify_provable,
)
from tests.support.cpu.nest_kernels import required
from tests.support.programs import regions
from tests.support.programs.bf16_regions import BF16_REGIONS, widened_operand

ARCH = "avx512_bf16"
NUMBERS = {"one row", "one column", "one of all", "no terms"}
"""Regions without rows, columns or terms: vectors of numbers multiply these."""


@pytest.fixture(scope="module", autouse=True)
def _products_of_bf16() -> None:
    required(ARCH)


def plans_of_pairs(region: Region) -> list[CpuContractionPlan]:
    """All plans of pairs that the planner compares."""
    return [plan for plan in all_plans(region, required(ARCH)) if plan.blocks.algorithm == "pairs"]


@pytest.mark.slow
def test_plans_play() -> None:
    """One plan of each kind."""
    kinds: dict[tuple[Any, ...], tuple[str, CpuContractionPlan]] = {}
    planned = set()
    for name, region in BF16_REGIONS.items():
        for plan in plans_of_pairs(region):
            planned.add(name)
            blocks = plan.blocks
            tile = (blocks.mr > 4, blocks.nr > blocks.lanes, "k" in plan.tails, blocks.bk)
            kinds.setdefault((name, plan.vector, plan.places, plan.order, plan.prefetch, *tile), (name, plan))
    assert set(BF16_REGIONS) - planned == NUMBERS
    cases = list(kinds.values())
    built = Built([(BF16_REGIONS[name], plan) for name, plan in cases], required(ARCH))
    verify_provable(built, [plan for _, plan in cases])
    for i, (name, _) in enumerate(cases):
        assert_plays(built, i, values_of(BF16_REGIONS[name], seed=i))


def test_infinities_reach_only_their_rows_and_columns() -> None:
    """Zeros stand behind the last term of both operands, so that no infinity is multiplied by what was there before."""
    region = BF16_REGIONS["odd"]
    inputs = values_of(region)
    inputs["A"][2, -1], inputs["A"][3, 0] = np.inf, np.nan
    inputs["B"][:, 7] = np.abs(inputs["B"][:, 7]) + 1
    wanted = play_region(region, inputs, wide=True)
    built = Built([(region, plan) for plan in plans_of_pairs(region)[:6]], required(ARCH))
    for i in range(len(built.regions)):
        for output, values in built.call(i, inputs).items():
            assert np.array_equal(np.isfinite(values.astype(np.float64)), np.isfinite(wanted[output]))


def test_pairs_multiply_in_the_kernel() -> None:
    region = BF16_REGIONS["whole"]
    plan = plans_of_pairs(region)[0]
    (kernel,) = Built([(region, plan)], required(ARCH)).kernels()
    products = calls_in(kernel, "dot_pairs")
    assert len(products) == plan.blocks.mr * plan.blocks.nr // 16
    assert {product.dtype for product in products} == {"fp32"}


def test_large_products_are_planned_by_pairs() -> None:
    plan, _ = plans_of(regions.matmul((), 512, 768, 768, dtype="bf16"), target_of(required(ARCH)))[0]
    assert plan.blocks.algorithm == "pairs"


@pytest.mark.parametrize("arch", ["avx512_vnni", "avx2"])
def test_other_machines_have_no_pairs_of_bf16(arch: str) -> None:
    plans = plans_of(BF16_REGIONS["whole"], target_of(required(arch)))
    assert all(plan.blocks.algorithm == "outer" for plan, _ in plans)
    plan = plans_of_pairs(BF16_REGIONS["whole"])[0]
    changed = with_fields(plan, arch="avx512_vnni")
    assert_refused(BF16_REGIONS["whole"], changed, Kind.UNKNOWN_TARGET, "avx512_vnni has no products of two bf16")


def test_sums_in_index_order_have_no_pairs() -> None:
    region = BF16_REGIONS["whole"]
    target = target_of(required(ARCH))
    plans = contraction_candidates.contraction_candidates(region, analyse(region).core, target, ordered=True)
    assert plans
    assert all(plan.blocks.algorithm == "outer" for plan, _ in plans)


def test_padding_that_bf16_lacks_stays_in_fp32() -> None:
    """0.1 is no bf16: the padding would be rounded with the operand."""
    assert plans_of_pairs(widened_operand(0.5))
    assert not plans_of_pairs(widened_operand(0.1))
