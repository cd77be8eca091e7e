"""Proves from ranges and conditions that accesses of a GPU kernel stay inside their buffers and are aligned."""

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
"""Conditions that hold at an access."""
_MAX_POINTS = 1 << 16
"""At most so many values of the variables are tried one by one; isl decides larger cases."""


def narrow_box(facts: Facts, box: Box) -> Box | None:
    """The ranges of the variables where the facts hold; None if they hold nowhere."""
    if not facts:
        return box
    tight = tighten(_bounds(facts), box)
    return None if tight is None else tight[1]


def _bounds(facts: Facts) -> tuple[Bound, ...]:
    return tuple(Bound(fact.expr, fact.low, fact.high) for fact in facts)


def value_range(expr: AxisExpr, facts: Facts, box: Box) -> tuple[int, int]:
    """Bounds (inclusive) of an expression where the facts hold; `box` is already narrowed by the facts."""
    low, high = bounds(expr, box)
    for fact in facts:
        for times in _multiples(expr, fact.expr):  # expr = times · (the fact's expression) + rest
            least, most = bounds(expr - fact.expr * times, box)
            ends = sorted((times * fact.low, times * (fact.high - 1)))
            low, high = max(low, ends[0] + least), min(high, ends[1] + most)
    if len(expr.terms) == 1:
        floor, c = expr.terms[0]
        if isinstance(floor, FloorDiv):
            ends = [expr.const + c * (end // floor.divisor) for end in value_range(floor.expr, facts, box)]
            low, high = max(low, min(ends)), min(high, max(ends))
    return low, high


def _multiples(expr: AxisExpr, part: AxisExpr) -> set[int]:
    """How often an expression may hold another: 1, -1, and where they share a term the quotient of its factors."""
    own = dict(expr.terms)
    quotients = (divmod(own.get(term, 0), c) for term, c in part.terms)
    return {1, -1, *(times for times, rest in quotients if times and not rest)}


def exact_range(expr: AxisExpr, facts: Facts, box: Box) -> tuple[int, int]:
    """The least and the greatest value where the facts hold; (1, 0) if they hold nowhere. Facts that share no
    variable with the expression are ignored."""
    related = tuple(fact for fact in facts if fact.expr.axes & expr.axes)
    axes = sorted(expr.axes.union(*(fact.expr.axes for fact in related)))
    sizes = [box[axis][1] - box[axis][0] + 1 for axis in axes]
    if math.prod(sizes) > _MAX_POINTS:
        from ir.index.isl import exact_range as range_by_isl

        return range_by_isl(expr, box, _bounds(related))
    point: list[Any] = [0] * len(box)
    for position, axis in enumerate(axes):
        values = np.arange(box[axis][0], box[axis][1] + 1)
        point[axis] = values.reshape([-1 if k == position else 1 for k in range(len(axes))])
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
    """Problems of an access to `count` neighbours along the last axis from `at` on, of which the first `limit` are
    touched: one message per axis that the access may leave."""
    inside = narrow_box(facts, box)
    if inside is None:
        return
    cut = limit is not None and limit == AxisExpr(shape[-1]) - at[-1]
    for axis, (expr, size) in enumerate(zip(at, shape, strict=True)):
        last = axis == len(shape) - 1
        low, high = value_range(expr, facts, inside)
        step = math.gcd(*(c for _, c in expr.terms))
        if step > 1:  # lower `high` to a value that the coefficients can reach
            high -= (high - expr.const) % step
        more = count if last else 1
        if low <= high and (low < 0 or high + more > size):  # the ranges prove nothing: look at the points
            low, high = exact_range(expr, facts, inside)
        if low > high:
            continue
        if low < 0:
            yield f"axis {axis} is reached before its start, at {low}"
        end = high + more
        if end > size and not (last and cut):
            yield f"axis {axis} of {size} is reached at {end - 1}"
