"""Whether a map reads every element of its operand at one point at most, so that work moved through it is not repeated.

The axes of the domain fall into parts that share no coordinate and no bound of a guard. A map is injective if it is so
on each part, or if a part reads nothing. Most parts have few points, which are all looked at. isl answers for large
parts, unless the small ones decide: a large part without bounds reads something.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ir.index.expr import AxisExpr
from ir.index.guard import Bound
from ir.index.map import AxisMap

_CACHE = 1 << 16
_MOST_POINTS = 1 << 16
"""Points of a part that are looked at one by one: about 2 ms."""


@lru_cache(maxsize=_CACHE)
def is_injective(view: AxisMap) -> bool:
    """Whether no element of the operand is read twice. Exact. Points that hold a fill do not count."""
    if view.is_empty or view.fill is not None or any(guard.is_never for guard in view.guards):
        return True
    unknown = {axis for axis, (low, high) in enumerate(view.interior) if low < high}
    if _determines_axes(view, unknown):
        return True
    parts = list(_parts(view, unknown))
    large = [part for part in parts if part.points > _MOST_POINTS]
    reads = [part.reads() for part in parts if part.points <= _MOST_POINTS]
    if any(not len(read) for read in reads):
        return True
    once = all(len(np.unique(read)) == len(read) for read in reads)
    if not large:
        return once
    if not once and not any(part.bounds for part in large):
        return False
    from ir.index.isl import reads_once

    return reads_once(view)


def _determines_axes(view: AxisMap, unknown: set[int]) -> bool:
    """Whether the coordinates determine every axis in `unknown`, one coordinate after another."""
    pending = [expr for expr in view.exprs if expr.terms]
    while unknown:
        left = [expr for expr in pending if not _fixes_axes(expr, unknown, view.interior)]
        if len(left) == len(pending):
            return False
        unknown = unknown - {k for expr in pending if expr not in left for k in expr.axes}
        pending = left
    return True


def _fixes_axes(expr: AxisExpr, unknown: set[int], box: Sequence[tuple[int, int]]) -> bool:
    """Whether `expr` and the known axes determine its unknown axes: every coefficient outweighs all smaller ones."""
    reach = 0
    weights = []
    for term, c in expr.terms:
        if isinstance(term, int):
            if term in unknown:
                weights.append((abs(c), term))
        elif term.expr.axes & unknown:
            return False
    for weight, position in sorted(weights):
        if weight <= reach:
            return False
        low, high = box[position]
        reach += weight * (high - low)
    return True


class _IndependentAxes(NamedTuple):
    """Some axes of a map's domain, and the coordinates and the bounds that depend on these axes."""

    view: AxisMap
    axes: frozenset[int]
    coordinates: tuple[AxisExpr, ...]
    bounds: tuple[Bound, ...]

    @property
    def points(self) -> int:
        """The number of points, without regard to bounds."""
        return prod(high - low + 1 for low, high in (self.view.interior[axis] for axis in self.axes))

    def reads(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """A number for each point where the bounds hold: equal for points that read the same coordinates."""
        ranges = [
            np.arange(low, high + 1 if axis in self.axes else low + 1)
            for axis, (low, high) in enumerate(self.view.interior)
        ]
        grid = np.meshgrid(*ranges, indexing="ij", sparse=True)
        place = np.zeros([len(points) for points in ranges], np.int64)
        for coordinate in self.coordinates:
            at = coordinate.eval(grid)
            least, extent = np.min(at), np.ptp(at) + 1
            _, numbers = np.unique(place * extent + (at - least), return_inverse=True)
            place = numbers.reshape(place.shape)
        holds = np.ones(place.shape, bool)
        for bound in self.bounds:
            at = bound.expr.eval(grid)
            holds &= (bound.lo <= at) & (at < bound.hi)
        return place[holds]


def _parts(view: AxisMap, unknown: set[int]) -> Iterator[_IndependentAxes]:
    """The parts of a map's domain over the axes of several points; the other axes stay at their point."""
    bounds = [bound for guard in view.guards for bound in guard.bounds]
    parts = [frozenset([axis]) for axis in unknown]
    for axes in (expr.axes & unknown for expr in (*view.exprs, *(bound.expr for bound in bounds))):
        joined = [part for part in parts if part & axes]
        parts = [part for part in parts if part not in joined]
        parts += [frozenset().union(*joined)] if joined else []
    for part in parts:
        yield _IndependentAxes(
            view,
            part,
            tuple(expr for expr in view.exprs if expr.axes & part),
            tuple(bound for bound in bounds if bound.expr.axes & part),
        )
