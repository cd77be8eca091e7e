"""Windows of an image: index algebra, on texts, of rules that enlarge kernels or take the greatest byte of a window.

Σₖ x(m(i, k))·c(n(i, k)) is also a sum over the points of a larger box j, if another product reads x at u over j and
u(i, k + o) = m(i, k) for one offset o: the weights c are 0 at all other points. Strides, dilations and padding are
parts of the maps. The answer "" says that there is no such offset.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ir.dtype import dtype
from ir.index import map as axis_map
from ir.index.guard import Guard
from ir.index.map import AxisMap, parse_map
from ir.index.moves import pad, shrink
from ir.term.language import Primitive
from ir.term.text import parse_sizes
from rules.primitives import part_of

_CACHE = 1 << 14
_POINTS = 1 << 18
"""The most points at which the guards of a window are tried."""
_OFFSETS = 256
"""The most offsets of one window in another that are tried."""


@Primitive
def integers_in_windows(read: str, view: str, op: str, element: str, reduced: str) -> str:
    """The map by which windows read integers: `view`, filled with the least integer (for "min" the greatest) instead of
    infinity, of the map `read`; "" where another number fills it, or a window holds nothing but fills."""
    map_, kind = parse_map(view), dtype(element)
    if not kind.is_int:
        return ""
    infinity, fill = (-math.inf, kind.lowest) if op == "max" else (math.inf, kind.highest)
    if any(guard.fill != infinity for guard in map_.guards) or not _all_read(map_, len(parse_sizes(reduced))):
        return ""
    guards = [Guard(guard.bounds, fill) for guard in map_.guards]
    filled = axis_map.axis_map(map_.sizes, map_.exprs, guards)
    return str(axis_map.compose(parse_map(read), filled))


@lru_cache(maxsize=_CACHE)
def _all_read(view: AxisMap, reduced: int) -> bool:
    """Whether every window of the last `reduced` axes reads an element. Only the axes of its guards are looked at."""
    if 0 in view.sizes:
        return False
    bounds = [bound for guard in view.guards for bound in guard.bounds]
    axes = sorted({axis for bound in bounds for axis in bound.expr.axes})
    sizes = [view.sizes[axis] for axis in axes]
    if math.prod(sizes) > _POINTS:
        return False
    point: list[Any] = [0] * len(view.sizes)
    for place, axis in enumerate(axes):
        point[axis] = np.arange(sizes[place]).reshape([-1 if one == place else 1 for one in range(len(axes))])
    inside = np.ones(sizes, np.bool_)
    for bound in bounds:
        value = bound.expr.eval(point)
        inside &= (bound.lo <= value) & (value < bound.hi)
    window = tuple(place for place, axis in enumerate(axes) if axis >= len(view.sizes) - reduced)
    return bool(inside.any(axis=window).all())


class Enlarged(NamedTuple):
    """The maps of the operand and of the weights over the larger window; the weights are 0 outside their own window."""

    read: AxisMap
    weights: AxisMap


@Primitive
def enlarged(part: str, m: str, n: str, u: str, k: str, j: str) -> str:
    """The map over j of x (`read`) or of its weights c (`weights`)."""
    return part_of(_enlarge(m, n, u, k, j), part)


@lru_cache(maxsize=_CACHE)
def _enlarge(m: str, n: str, u: str, k: str, j: str) -> Enlarged | None:
    if len(parse_sizes(k)) != len(parse_sizes(j)):
        return None
    return enlarge(parse_map(m), parse_map(n), parse_map(u), len(parse_sizes(k)))


def enlarge(read: AxisMap, weights: AxisMap, larger: AxisMap, reduced: int) -> Enlarged | None:
    """The maps of a product over the window of another product; None where this window is not a larger one.

    read, weights: the maps of the product's operand and weights. larger: the map by which the other product reads the
    operand. reduced: the number of reduced axes."""
    own = len(read.sizes) - reduced
    if len(larger.sizes) != len(read.sizes) or weights.sizes != read.sizes or 0 in (*read.sizes, *larger.sizes):
        return None
    room = [wide - size for size, wide in zip(read.sizes[own:], larger.sizes[own:], strict=True)]
    if min(room, default=0) < 0 or not any(room) or math.prod(slack + 1 for slack in room) > _OFFSETS:
        return None
    here = _over(larger, read.sizes[:own])
    if here is None or not all(math.isfinite(guard.fill) for guard in here.guards):
        return None
    for offsets in product(*(range(slack + 1) for slack in room)):
        low = (*[0] * own, *offsets)
        inside = shrink(here.sizes, low, [a + b for a, b in zip(low, read.sizes, strict=True)])
        if axis_map.compose(here, inside) == read:
            around = [(a, wide - a - size) for a, wide, size in zip(low, here.sizes, read.sizes, strict=True)]
            return Enlarged(here, axis_map.compose(weights, pad(read.sizes, around)))
    return None


def _over(view: AxisMap, outer: tuple[int, ...]) -> AxisMap | None:
    """The map over outer axes of these sizes; None where it depends on an axis whose size changes."""
    differing = [axis for axis, size in enumerate(outer) if size != view.sizes[axis]]
    kept = [axis for axis in range(len(view.sizes)) if axis not in differing]
    projected = axis_map.project(view, kept)
    return (
        None if projected is None else axis_map.insert_axes(projected, differing, [outer[axis] for axis in differing])
    )
