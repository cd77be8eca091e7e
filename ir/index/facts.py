"""Properties of a map: whether it is injective, the offset of its reads in the operand, the axes it picks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import gcd

from ir.index.expr import AxisExpr, axis, box_of, interval
from ir.index.map import AxisMap
from ir.index.strides import flat, row_major

_CACHE = 1 << 16


@lru_cache(maxsize=_CACHE)
def is_injective(view: AxisMap) -> bool:
    """Whether no element of the operand is read twice, so that work moved through the map is not repeated.

    Exact: decided on the canonical form if possible, else by isl. Points that hold a fill do not count.
    """
    if view.is_empty or view.fill is not None:
        return True
    unknown = {k for k, (low, high) in enumerate(view.interior) if low < high}
    missing = unknown - {position for expr in view.exprs for position in expr.axes}
    if missing and not view.guards:
        return False
    if not missing and _determines_axes(view, unknown):
        return True
    if _has_repeated_read(view, unknown):
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


def _has_repeated_read(view: AxisMap, unknown: set[int]) -> bool:
    """Whether some step between two points keeps every coordinate, as between overlapping windows. isl would find the
    step, too, but takes a thousand times as long."""
    for step in _steps(view, unknown):
        if not any(_may_change(expr, step) for expr in view.exprs):
            start = [(low + high - step.get(k, 0)) // 2 for k, (low, high) in enumerate(view.interior)]
            stop = [at + step.get(k, 0) for k, at in enumerate(start)]
            if _is_read(view, start) and _is_read(view, stop):
                return True
    return False


def _steps(view: AxisMap, unknown: set[int]) -> Iterator[dict[int, int]]:
    """Steps along one unknown axis, and steps along two that keep a coordinate."""
    yield from ({k: 1} for k in sorted(unknown))
    for expr in view.exprs:
        linear = [(term, c) for term, c in expr.terms if isinstance(term, int) and term in unknown]
        for (i, a), (j, b) in combinations(linear, 2):
            g = gcd(a, b)
            yield {i: b // g, j: -a // g}


def _may_change(expr: AxisExpr, step: Mapping[int, int]) -> bool:
    """Whether the value of `expr` may change along `step`."""
    if any(not isinstance(term, int) and term.expr.axes & step.keys() for term, _ in expr.terms):
        return True
    return sum(c * step.get(term, 0) for term, c in expr.terms if isinstance(term, int)) != 0


def _is_read(view: AxisMap, point: Sequence[int]) -> bool:
    """Whether the domain has this point and all guards hold there."""
    here = tuple((at, at) for at in point)
    return all(0 <= at < size for at, size in zip(point, view.sizes, strict=True)) and all(
        bound.lo <= interval(bound.expr, here)[0] < bound.hi for guard in view.guards for bound in guard.bounds
    )


@lru_cache(maxsize=_CACHE)
def offset(view: AxisMap, shape: tuple[int, ...]) -> AxisExpr:
    """The row-major offset, in elements, of a read in an operand of this shape (valid where no guard fails)."""
    return flat(view.exprs, row_major(shape))


@lru_cache(maxsize=_CACHE)
def index_divisions(view: AxisMap, shape: tuple[int, ...]) -> int:
    """How many divisions of its index a gather through `view` makes, to find its place in an operand of this shape. The
    index is the last axis of the map's domain."""
    if view.is_empty:
        return 0
    bounds = [bound.expr for guard in view.guards for bound in guard.bounds]
    floors = {term for expr in (offset(view, shape), *bounds) for term, _ in expr.terms if not isinstance(term, int)}
    return sum(len(view.sizes) - 1 in term.expr.axes for term in floors)


def picked_axes(view: AxisMap, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axis of the domain that each coordinate is, if the map only picks whole axes of `sizes`, else None. Axes of
    size 1 are left out."""
    if view.guards:
        return None
    if view.is_empty or 0 in sizes:
        return _picked_axes_of_empty(view.sizes, sizes)
    box, picked = box_of(view.sizes), []
    for coordinate, size in zip(view.exprs, sizes, strict=True):
        if size == 1:
            continue
        position = next((k for k in coordinate.axes if coordinate == axis(k, box)), None)
        if position is None or view.sizes[position] != size or position in picked:
            return None
        picked.append(position)
    return tuple(picked)


def _picked_axes_of_empty(outer: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Coordinates of an empty domain are all 0: for each size take the first outer axis left of that size."""
    picked: list[int] = []
    for size in sizes:
        if size != 1:
            position = next((k for k, other in enumerate(outer) if other == size and k not in picked), None)
            if position is None:
                return None
            picked.append(position)
    return tuple(picked)
