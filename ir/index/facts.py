"""Properties of a map: the offset of its reads in the operand, the axes it picks."""

from __future__ import annotations

from functools import lru_cache

from ir.index.expr import AxisExpr, axis, box_of
from ir.index.map import AxisMap
from ir.index.strides import flat, row_major

_CACHE = 1 << 16


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
