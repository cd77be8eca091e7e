"""Whether accesses of a GPU kernel stay inside their buffers and are aligned, from ranges and conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ir.index.expr import AxisExpr, Box, FloorDiv
from ir.index.guard import Bound, tighten
from ir.index.text import bounds
from ir.kernel.nodes import Within

Facts = tuple[Within, ...]
"""Conditions that hold where an access happens."""
_POINTS = 1 << 16
"""So many values of a few variables are tried one by one; beyond, isl decides."""


def narrowed(facts: Facts, box: Box) -> Box | None:
    """The ranges of the variables where the facts hold; None where they never do."""
    if not facts:
        return box
    found = tighten(_bounds(facts), box)
    return None if found is None else found[1]


def _bounds(facts: Facts) -> tuple[Bound, ...]:
    return tuple(Bound(each.expr, each.low, each.high) for each in facts)


def value_range(expr: AxisExpr, facts: Facts, box: Box) -> tuple[int, int]:
    """Bounds (inclusive) of an expression where the facts hold; `box` is theirs already."""
    low, high = bounds(expr, box)
    for fact in facts:  # an expression is what a fact bounds, or its negative, and the rest
        least, most = bounds(expr - fact.expr, box)
        low, high = max(low, fact.low + least), min(high, fact.high - 1 + most)
        least, most = bounds(expr + fact.expr, box)
        low, high = max(low, least - fact.high + 1), min(high, most - fact.low)
    if len(expr.terms) == 1:
        floor, c = expr.terms[0]
        if isinstance(floor, FloorDiv):
            ends = [expr.const + c * (each // floor.divisor) for each in value_range(floor.expr, facts, box)]
            low, high = max(low, min(ends)), min(high, max(ends))
    return low, high


def exact_range(expr: AxisExpr, facts: Facts, box: Box) -> tuple[int, int]:
    """The least and the greatest value where those facts hold that share a variable with the expression: (1, 0) where
    there is none."""
    related = tuple(fact for fact in facts if fact.expr.axes & expr.axes)
    axes = sorted(expr.axes.union(*(fact.expr.axes for fact in related)))
    sizes = [box[axis][1] - box[axis][0] + 1 for axis in axes]
    if math.prod(sizes) > _POINTS:
        from ir.index.isl import exact_range as range_by_isl

        return range_by_isl(expr, box, _bounds(related))
    point: list[Any] = [0] * len(box)
    for position, axis in enumerate(axes):
        values = np.arange(box[axis][0], box[axis][1] + 1)
        point[axis] = values.reshape([-1 if each == position else 1 for each in range(len(axes))])
    kept = np.ones(sizes, np.bool_)
    for fact in related:
        value = fact.expr.eval(point)
        kept &= (fact.low <= value) & (value < fact.high)
    values = np.broadcast_to(expr.eval(point), sizes)[kept]
    return (int(values.min()), int(values.max())) if values.size else (1, 0)


def divisor(expr: AxisExpr) -> int:
    """A number that divides every value of an expression; 0 for the constant 0."""
    return math.gcd(expr.const, *(c for _, c in expr.terms))


def outside(
    at: Sequence[AxisExpr], shape: Sequence[int], count: int, facts: Facts, box: Box, limit: AxisExpr | None = None
) -> Iterator[str]:
    """What is wrong with an access to `count` neighbours along the last axis from `at` on, of which only the first
    `limit` are touched. Coordinates are held to their axes one by one."""
    inside = narrowed(facts, box)
    if inside is None:
        return
    cut = limit is not None and limit == AxisExpr(shape[-1]) - at[-1]
    for axis, (expr, size) in enumerate(zip(at, shape, strict=True)):
        last = axis == len(shape) - 1
        low, high = value_range(expr, facts, inside)
        step = math.gcd(*(c for _, c in expr.terms))
        if step > 1:  # the greatest value that the coefficients can make
            high -= (high - expr.const) % step
        more = count if last else 1
        if low <= high and (low < 0 or high + more > size):  # what the ranges do not prove, the points may
            low, high = exact_range(expr, facts, inside)
        if low > high:
            continue
        if low < 0:
            yield f"axis {axis} is reached before its start, at {low}"
        end = high + more
        if end > size and not (last and cut):
            yield f"axis {axis} of {size} is reached at {end - 1}"
