"""A small window inside a larger one: index algebra, on texts, of the rules that enlarge kernels.

Σₖ x(m(i, k))·c(n(i, k)) is also a sum over the points of a larger box j, if another product reads x at u over j and
u(i, k + o) = m(i, k) for one offset o: the weights c are 0 at all other points. Strides, dilations and padding are
parts of the maps. The answer "" says that there is no such offset.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from ir.index import map as axis_map
from ir.index.map import AxisMap, parse_map
from ir.index.moves import pad, shrink
from ir.term.language import Primitive
from ir.term.text import parse_sizes
from rules.primitives import part_of

_CACHE = 1 << 14
_OFFSETS = 256
"""The most offsets of one window in another that are tried."""


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
