"""The share of terms that tiles take, against a count over all tiles and terms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from codegen.plan.cpu.unread_terms import lean_heights, share_of_terms
from ir.region.region import Region
from tests.codegen.lower.cpu.test_read_terms import REGIONS
from tests.codegen.plan.test_row_box import nhwc, view_of
from tests.support.cpu.contraction_runs import plans_of
from tests.support.cpu.nest_kernels import target
from tests.support.programs import regions


def counted_share(region: Region, mr: int) -> float:
    """The share of pairs of a tile of `mr` rows and a position of the window where, for every bound of the read, some
    row of the tile keeps the bound."""
    view = view_of(region)
    (read,) = view.roles.reads[0]
    bounds = [bound for guard in read.map.guards for bound in guard.bounds]
    window = [digit for digit in view.k if any(digit in bound.expr.axes for bound in bounds)]
    sizes, taken = [view.sizes[digit] for digit in view.rows], []
    for first in range(0, view.m, mr):
        rows = np.unravel_index(np.arange(first, min(first + mr, view.m)), sizes) if sizes else ()
        for numbers in itertools.product(*(range(view.sizes[digit]) for digit in window)):
            point = dict(zip((*view.rows, *window), (*rows, *numbers), strict=True))
            at = [point.get(digit, 0) for digit in range(len(view.sizes))]
            taken.append(all(np.any(bound.holds(at)) for bound in bounds))
    return float(np.mean(taken))


@pytest.mark.parametrize("name", REGIONS)
def test_the_share_is_that_of_a_count(name: str) -> None:
    region = REGIONS[name]
    view = view_of(region)
    innermost = view.sizes[view.rows[-1]] if view.rows else 1
    heights = [mr for mr in range(1, innermost + 1) if innermost % mr == 0]
    for mr in heights:
        assert share_of_terms(view, mr) == pytest.approx(counted_share(region, mr))
    assert share_of_terms(view, heights[0]) < 1


@pytest.mark.parametrize("mr", [4, 5, 8, 11, 100])
def test_tiles_over_parts_of_several_rows_take_no_less_than_they_must(mr: int) -> None:
    for region in REGIONS.values():
        assert counted_share(region, mr) - 1e-9 <= share_of_terms(view_of(region), mr) <= 1


def test_a_lean_tile_leaves_out_the_most() -> None:
    """Of rows of 28 pixels and a window of steps of 12, tiles of 4 leave out 3 of 7 tiles at either border."""
    view = view_of(nhwc(regions.conv(1, 32, 32, (28, 28), 3, 1, 12, 12)))
    assert lean_heights(view, [2, 4, 7, 14]) == (4,)
    assert share_of_terms(view, 4) == pytest.approx(((28 + 2 * 16) / (3 * 28)) ** 2)
    assert share_of_terms(view, 4) < share_of_terms(view, 14)


def test_the_digits_of_a_window_that_reads_much_padding_come_first() -> None:
    """Then a block of k has one position of the window, though channels are outermost in memory."""
    far, near = view_of(REGIONS["channels outermost"]), view_of(regions.conv(1, 24, 64, (28, 28), 3, 1, 1))
    assert [view.k.index(view.roles.rank) for view in (far, near)] == [2, 0]


def test_all_terms_are_taken_without_padding_and_of_variables() -> None:
    for region in (nhwc(regions.conv(1, 48, 32, (12, 12), 3, 1, 0)), regions.conv(1, 48, 32, (12, 12), 1, 1, 0)):
        assert share_of_terms(view_of(region), 4) == 1
        assert lean_heights(view_of(region), [2, 4]) == ()


def test_pixels_are_rows_where_tiles_leave_out_much_padding() -> None:
    """Between buffers whose pixels are innermost too, though stores then cross the memory's order."""
    far, near = (regions.conv(1, 64, 256, (28, 28), 3, 1, step, step) for step in (24, 1))
    assert [plans_of(region, target("avx512"))[0][0].vector for region in (far, near)] == [1, 0]
