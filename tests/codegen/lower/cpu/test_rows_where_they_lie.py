"""Contractions whose rows are read in memory or in a box, by every plan of the planner, against region playback."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from codegen.compile.machine import machine
from codegen.plan.fit_plan import fit_plan
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from ir.diagnostics import EqsatError, Kind
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuContractionPlan, OperandPlace
from ir.region.playback import play_region
from ir.region.region import Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.codegen.plan.test_row_box import CONVS, nhwc
from tests.support.cpu.changed_plan import with_fields
from tests.support.cpu.contraction_runs import Built, all_plans, one_of_each_kind, plans_of, restricted
from tests.support.programs import regions
from tests.support.sampling import first_few


def computed_operand() -> Region:
    """conv(exp(X), W): where X is padded, the operand is 0 and not exp(0)."""
    image, over, out = (1, 6, 8, 5), (1, 6, 8, 20, 3, 3, 5), (1, 6, 8, 20)
    read = regions.read("E", over, "i0", "i1 + i4 - 1", "i2 + i5 - 1", "i6", pad={1: 6, 2: 8})
    body = [
        regions.ewise("E", "exp", image, regions.same("X", image)),
        regions.contraction("C", over, 3, read, regions.read("W", over, "i3", "i4", "i5", "i6")),
    ]
    inputs = [regions.buffer("X", image), regions.buffer("W", (20, 3, 3, 5), constant=True)]
    return regions.region("conv_of_exp", inputs, body, out)


REGIONS = {
    **CONVS,
    "epilogue": nhwc(regions.conv(1, 20, 40, (14, 14), 3, 1, 1, epilogue=True)),
    "whole tiles": nhwc(regions.conv(2, 8, 64, (6, 6), 3, 1, 1, epilogue=True)),
    "groups": nhwc(regions.conv(1, 8, 40, (6, 6), 3, 1, 1, groups=2)),
    "one pixel": nhwc(regions.conv(1, 3, 20, (1, 1), 3, 1, 1)),
    "blocks of k": nhwc(regions.conv(1, 130, 40, (6, 6), 3, 1, 1)),
    "one by one": nhwc(regions.conv(2, 70, 40, (6, 6), 1, 2, 0)),
    "computed": computed_operand(),
    "matrix": regions.matmul((), 28, 40, 50),
    "long matrix": regions.matmul((), 28, 40, 2100),
    "transposed": regions.matmul((2,), 12, 40, 30, lhs_t=True),
    "halves": regions.matmul((), 28, 40, 50, dtype="bf16"),
    "doubles": regions.matmul((), 28, 40, 50, dtype="fp64"),
    "integers": regions.matmul((), 28, 40, 50, dtype="i8"),
    "prologue": regions.prologue_gemm(28, 40, 50),
}


def plans(region: Region, isa: str | None = None, units: int = 2) -> list[CpuContractionPlan]:
    """One plan of each kind that reads rows where they lie, of all that the planner compares."""
    compared = all_plans(region, restricted(isa), units)
    return one_of_each_kind(
        (p for p in compared if p.places[1 - p.vector] in ("memory", "box") and p.blocks.algorithm != "dot"),
        lambda plan: (plan.vector, plan.places, plan.order, plan.prefetch, plan.held, plan.blocks.bm),
    )


@first_few(1, "isa", [None, "avx2"])
def test_every_kind_of_plan_plays(isa: str | None) -> None:
    cases = [(region, plan) for region in REGIONS.values() for plan in plans(region, isa)]
    places = {plan.places[1 - plan.vector] for _, plan in cases}
    assert places == {"memory", "box"}
    assert {plan.held for _, plan in cases} == {True, False}
    built = Built(cases, restricted(isa))
    for kernel in built.kernels():
        verify(kernel)
    for i, (region, _) in enumerate(cases):
        assert_plays(built, i, values_of(region))


@pytest.mark.slow
def test_every_order_of_loops_plays() -> None:
    for name in ("blocks of k", "long matrix", "epilogue"):
        region = REGIONS[name]
        lanes = machine().lanes
        plan = with_fields(plans(region)[0], **{"blocks.nr": lanes, "blocks.bn": -(-40 // lanes) * lanes})
        plan = with_fields(plan, prefetch=False, held=False)
        orders = [with_fields(plan, order=order) for order in ("knm", "nkm", "mnk")]
        if plan.places[plan.vector] == "packed":
            orders.pop()
        elif plan.places[plan.vector] == "const_pool":
            orders += [with_fields(plan, order=order, prefetch=True) for order in ("knm", "nkm")]
        built = Built([(region, order) for order in orders])
        texts = {c_text(lowered.kernel).replace(f"k{i}", "k") for i, lowered in enumerate(built.lowered)}
        assert len(texts) >= len(orders) - 2, "with one block of k, the loop over these may stand anywhere"
        for i in range(len(orders)):
            assert_plays(built, i, values_of(region))


@pytest.mark.slow
def test_sums_in_registers_are_those_of_the_workspace() -> None:
    """Bit for bit, with and without an epilogue, and where several outputs read the sums."""
    lanes = machine().lanes
    whole = [
        nhwc(regions.conv(1, 20, 2 * lanes, (12, 12), 3, 1, 1, epilogue=True)),
        nhwc(regions.conv(2, 20, lanes, (4, 12), 1, 1, 0)),
        regions.matmul((2,), 12, 2 * lanes, 30, dtype="bf16"),
    ]
    for region in whole:
        plan = next(plan for plan in plans(region) if plan.held)
        built = Built([(region, plan), (region, with_fields(plan, held=False))])
        for kernel in built.kernels():
            verify(kernel)
        for i in range(2):
            assert_plays(built, i, values_of(region))
        held, stored = (built.call(i, values_of(region)) for i in range(2))
        for name in held:
            np.testing.assert_array_equal(held[name], stored[name])
        assert "sums" not in c_text(built.lowered[0].kernel).replace("sums in registers", "")


def test_not_a_number_stays_where_it_is() -> None:
    region = REGIONS["padded"]
    inputs = values_of(region)
    inputs["X"][0, 0, 0, 0], inputs["X"][0, 3, 5, 1] = np.nan, np.inf
    cases = [(region, plan) for plan in plans(region)]
    built = Built(cases)
    (wanted,) = play_region(region, inputs).values()
    for i in range(len(cases)):
        (actual,) = built.call(i, inputs).values()
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted))
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4)


def test_padded_rows_are_read_in_a_box() -> None:
    """A padded convolution over channels that lie innermost packs nothing in its kernel."""
    region = nhwc(regions.conv(1, 64, 64, (56, 56), 3, 1, 1))
    plan, _ = plans_of(region)[0]
    assert plan.places == ("box", "const_pool")
    assert plan.blocks.mr in (7, 14, 8, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blocks.mr": 5, "blocks.bm": 35}, "tiles of 5 rows do not divide the 14 rows"),
        ({"blocks.mr": 7, "blocks.bm": 21}, "a block of 21 rows of 'X' is no box"),
        ({"operands": (OperandPlace("X", "box"), OperandPlace("W", "packed")), "order": "mnk"}, "can not pack columns"),
        ({"operands": (OperandPlace("X", "box"), OperandPlace("W", "box"))}, "'W' has the columns"),
        ({"order": "mnk", "prefetch": True}, "no further panels"),
        ({"held": True}, "can not take the sums"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    region = nhwc(regions.conv(1, 20, 20, (14, 14), 3, 1, 1))
    plan = next(plan for plan in plans(region) if plan.places[0] == "box" and plan.blocks.mr in (7, 14))
    plan = msgspec.structs.replace(plan, order="nkm", held=False)
    fit_plan(region, analyse(region).core, plan)
    with pytest.raises(EqsatError) as caught:
        fit_plan(region, analyse(region).core, with_fields(plan, **changes))
    assert caught.value.diagnostics[0].kind is Kind.UNSUPPORTED_OP
    assert message in str(caught.value)
