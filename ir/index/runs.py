"""Points of an axis at which an expression with floors has neighbouring values.

    i - 2048*((i + 5)//2043)    runs: between the changes of its floors the expression grows by 1 per point
    i//2 + 7                    a window: the values of some points lie among as many neighbours, in ascending order

Offsets in tensors that were rolled, tiled or reshaped have runs; those in images that were enlarged have windows.
"""

from __future__ import annotations

from ir.index.expr import Box, floordiv
from ir.index.linear import ZERO, AxisExpr, FloorDiv

_LEAST_RUN = 32
"""Points of the shortest runs of neighbours: a vector of 16 lanes then lies in one run as often as not."""


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
    moving = [
        (term, c) for term, c in expr.terms if term == axis or (isinstance(term, FloorDiv) and axis in term.expr.axes)
    ]
    if len(moving) != 1:
        return None
    ((floor, coefficient),) = moving
    if isinstance(floor, int) or coefficient != 1:
        return None
    growth = floor.expr.coeff(axis)
    return floor if growth and 0 < growth <= floor.divisor else None


def growth_within(floor: FloorDiv, axis: int, points: AxisExpr, box: Box) -> AxisExpr:
    """The growth of a floor, whose numerator is affine along an axis, from the current point to `points` further."""
    further = floordiv(floor.expr + points * (floor.expr.coeff(axis) or 0), floor.divisor, box)
    return further - AxisExpr(0, ((floor, 1),))


def growth_of_lanes(expr: AxisExpr, axis: int, lanes: int, residue: int) -> tuple[int, ...]:
    """The growth of an expression from a point of the axis to the same and the following `lanes` - 1 points, if it is
    the same from every point that leaves this residue, divided by `lanes`; else ()."""
    growth = [0] * lanes
    for term, coefficient in expr.terms:
        if term == axis:
            growth = [grown + coefficient * lane for lane, grown in enumerate(growth)]
        elif isinstance(term, FloorDiv) and axis in term.expr.axes:
            step, divisor = term.expr.coeff(axis), term.divisor
            if step is None or any((c * lanes if t == axis else c) % divisor for t, c in term.expr.terms):
                return ()
            first = term.expr.const + step * residue
            growth = [
                grown + coefficient * ((first + step * lane) // divisor - first // divisor)
                for lane, grown in enumerate(growth)
            ]
    return tuple(growth)
