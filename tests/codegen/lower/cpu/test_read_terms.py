"""Tiles leave out the terms that their rows read from padding: by every kind of plan, against region playback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.plan.cpu.cpu_contraction import cpu_contraction_of
from codegen.plan.cpu.unread_terms import unread_digits
from codegen.poly.analyse import analyse
from codegen.text.cpu_to_c import c_text
from ir.kernel.cpu.verify import verify
from ir.plan.cpu import CpuContractionPlan
from ir.region.order import in_orders
from ir.region.playback import play_region
from ir.region.region import Region
from tests.codegen.lower.cpu.test_lower_contraction import assert_plays, values_of
from tests.codegen.plan.test_row_box import NHWC, nhwc
from tests.support.cpu.contraction_runs import Built, all_plans, restricted
from tests.support.programs import regions
from tests.support.sampling import first_few


def mirrored() -> Region:
    """A convolution whose window runs against the rows, over an image whose columns are mirrored."""
    image, over, out = (1, 9, 7, 32), (1, 9, 7, 40, 3, 3, 32), (1, 9, 7, 40)
    read = regions.read("X", over, "i0", "i1 - 3*i4 + 2", "7 - i2 + 2*i5 - 3", "i6", pad={1: 9, 2: 7})
    body = [regions.contraction("C", over, 3, read, regions.read("W", over, "i3", "i4", "i5", "i6"))]
    inputs = [regions.buffer("X", image), regions.buffer("W", (40, 3, 3, 32), constant=True)]
    return regions.region("mirrored", inputs, body, out)


REGIONS = {
    "one step of padding": nhwc(regions.conv(1, 64, 48, (7, 7), 3, 1, 1, epilogue=True)),
    "many images": nhwc(regions.conv(3, 32, 40, (5, 8), 3, 1, 4, 4)),
    "far windows": nhwc(regions.conv(1, 48, 32, (12, 12), 3, 1, 10, 10)),
    "channels outermost": in_orders(regions.conv(1, 24, 64, (14, 14), 3, 1, 12, 12), {"Y": NHWC}),
    "strided": nhwc(regions.conv(2, 32, 32, (9, 11), 5, 2, 4, 2)),
    "one pixel": nhwc(regions.conv(1, 32, 40, (1, 1), 3, 1, 1)),
    "groups": nhwc(regions.conv(1, 64, 64, (6, 6), 3, 1, 3, 3, groups=2)),
    "mirrored": mirrored(),
}


def plans(region: Region, isa: str | None = None) -> list[CpuContractionPlan]:
    """One plan of each kind whose tiles leave out terms."""
    kinds: dict[tuple[Any, ...], CpuContractionPlan] = {}
    core = analyse(region).core
    for plan in all_plans(region, restricted(isa)):
        view, blocks = cpu_contraction_of(region, core, vector=plan.vector), plan.blocks
        if view is not None and unread_digits(view, blocks, plan.places):
            kinds.setdefault((plan.places, plan.held, blocks.mr, blocks.bk < view.depth), plan)
    return list(kinds.values())


@pytest.mark.slow
@first_few(1, "isa", [None, "avx2"])
def test_every_kind_of_plan_plays(isa: str | None) -> None:
    found = {name: plans(region, isa) for name, region in REGIONS.items()}
    assert not [name for name, some in found.items() if not some]
    cases = [(REGIONS[name], plan) for name, some in found.items() for plan in some]
    assert {plan.places[0] for _, plan in cases} == {"box", "packed"}
    built = Built(cases, restricted(isa))
    for kernel in built.kernels():
        verify(kernel)
    for i, (region, _) in enumerate(cases):
        assert_plays(built, i, values_of(region))


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_padding_times_an_infinite_weight_is_no_number(number: float) -> None:
    region = REGIONS["far windows"]
    inputs = values_of(region)
    inputs["W"][3, 5, 0, 1] = number
    cases = [(region, plan) for plan in plans(region)]
    built = Built(cases)
    (wanted,) = play_region(region, inputs).values()
    assert 0 < np.isnan(wanted).sum() < wanted.size
    for i in range(len(cases)):
        (actual,) = built.call(i, inputs).values()
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted))
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4)


def test_a_kernel_leaves_out_terms_only_where_that_pays() -> None:
    """Not without padding, with few channels, or in a matrix product."""
    for region in (
        nhwc(regions.conv(1, 48, 32, (12, 12), 3, 1, 0)),
        nhwc(regions.conv(1, 3, 32, (12, 12), 3, 1, 1)),
        regions.matmul((), 28, 64, 64),
    ):
        assert not plans(region), region.name
    text = c_text(Built([(REGIONS["far windows"], plans(REGIONS["far windows"])[0])]).lowered[0].kernel)
    assert "infinite" in text
