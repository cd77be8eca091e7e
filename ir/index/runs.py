"""Points of an axis at which an expression with floors has neighbouring values.

    i - 2048*((i + 5)//2043)    runs: between the changes of its floors the expression grows by 1 per point
    i//2 + 7                    a window: the values of some points lie among as many neighbours, in ascending order

    4096*(i - 2*(i//2)) + i//2   parts: vectors of points lie among a few runs of neighbours, always in the same way

Offsets in tensors that were rolled, tiled or reshaped have runs; those in images that were enlarged have windows, and
those in images whose channels become pixels have parts.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from ir.index.expr import Box, floordiv
from ir.index.linear import ZERO, AxisExpr, FloorDiv, split_by_axes

_LEAST_RUN = 32
"""Points of the shortest runs of neighbours: a vector of 16 lanes then lies in one run as often as not."""
_MOST_PARTS = 4
"""Parts of neighbours, at most, that are loaded and permuted in place of single elements."""


def run_of_neighbours(expr: AxisExpr, axis: int) -> int:
    """Points of the runs along an axis in which the expression grows by 1 per point; 0 where there are no such runs, or
    short ones, or where the expression has even steps along the whole axis."""
    step, lengths = 0, []
    for term, coefficient in expr.terms:
        if term == axis:
            step = coefficient
        elif isinstance(term, FloorDiv) and axis in term.expr.axes:
            growth = term.expr.coeff(axis)
            lengths.append(term.divisor // abs(growth) if growth else 0)
    shortest = min(lengths, default=0)
    return shortest if step == 1 and shortest >= _LEAST_RUN else 0


def changes_within(expr: AxisExpr, axis: int, points: int, box: Box) -> AxisExpr:
    """How often the floors of an expression that has runs along an axis change, from the current point to `points`
    further ones: 0 if all lie in one run."""
    changes = ZERO
    for term, _ in expr.terms:
        if isinstance(term, FloorDiv) and axis in term.expr.axes:
            growth = growth_within(term, axis, AxisExpr(points), box)
            changes += growth if (term.expr.coeff(axis) or 0) > 0 else growth * -1
    return changes


def window_floor(expr: AxisExpr, axis: int) -> FloorDiv | None:
    """The only term that depends on the axis, if it is a floor that grows by 0 or 1 per point; else None."""
    moving, _ = split_by_axes(expr, (axis,))
    if len(moving.terms) != 1:
        return None
    ((floor, coefficient),) = moving.terms
    if isinstance(floor, int) or coefficient != 1:
        return None
    growth = floor.expr.coeff(axis)
    return floor if growth and 0 < growth <= floor.divisor else None


def growth_within(floor: FloorDiv, axis: int, points: AxisExpr, box: Box) -> AxisExpr:
    """The growth of a floor, whose numerator is affine along an axis, from the current point to `points` further."""
    further = floordiv(floor.expr + points * (floor.expr.coeff(axis) or 0), floor.divisor, box)
    return further - AxisExpr(0, ((floor, 1),))


def growth_of_lanes(expr: AxisExpr, axis: int, lanes: int) -> tuple[int, ...]:
    """The growth of an expression from a point of the axis to the same and the following `lanes` - 1 points, if it is
    the same from every multiple of `lanes`; else ()."""
    growth = [0] * lanes
    for term, coefficient in expr.terms:
        if term == axis:
            growth = [grown + coefficient * lane for lane, grown in enumerate(growth)]
        elif isinstance(term, FloorDiv) and axis in term.expr.axes:
            steps = _steps_of_lanes(term, axis, lanes)
            growth = [grown + coefficient * step for grown, step in zip(growth, steps, strict=True)] if steps else []
        if not growth:
            return ()
    return tuple(growth)


def _steps_of_lanes(floor: FloorDiv, axis: int, lanes: int) -> list[int]:
    """The growth of a floor from the first lane to each lane, as in `growth_of_lanes`.

    With u = gcd(divisor, steps of the numerator), floor((u·a + b) / (u·q)) is floor((a + floor(b/u)) / q), where a
    depends on the point, and b on the lane alone. So the growth is known where q is 1, and 0 where floor(b/u) is the
    same in all lanes.
    """
    step = floor.expr.coeff(axis)
    if step is None:
        return []
    unit = math.gcd(floor.divisor, *(c * lanes if term == axis else c for term, c in floor.expr.terms))
    places = [(floor.expr.const + step * lane) // unit for lane in range(lanes)]
    same = all(place == places[0] for place in places)
    return [place - places[0] for place in places] if unit == floor.divisor or same else []


class LanePart(NamedTuple):
    """Neighbours in memory among which the elements of some lanes lie.

    first   elements from the first lane's element to the first neighbour
    size    neighbours
    places  of every lane the place of its element among them; 0 in lanes whose elements lie elsewhere
    lanes   whose elements lie here
    """

    first: int
    size: int
    places: tuple[int, ...]
    lanes: tuple[bool, ...]


@lru_cache(maxsize=4096)
def parts_of_lanes(growth: tuple[int, ...], width: int) -> tuple[LanePart, ...]:
    """Few parts of at most `width` neighbours that hold the elements of all lanes; () where there are none."""
    parts: list[LanePart] = []
    left = sorted(set(growth))
    while left and len(parts) < _MOST_PARTS:
        first = left[0]
        near = [first <= grown < first + width for grown in growth]
        places = tuple(grown - first if inside else 0 for grown, inside in zip(growth, near, strict=True))
        parts.append(LanePart(first, max(places) + 1, places, tuple(near)))
        left = [grown for grown in left if grown >= first + width]
    return () if left else tuple(parts)
