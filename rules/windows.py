"""Where a product with a window is read by a larger one: index algebra of the rules that enlarge kernels, on texts.

Σₖ x(m(i,k))·c(n(i,k)) is a sum over the points of a larger box j where another product reads x at u, such that
u(i, k + o) = m(i,k) for one offset o: c is 0 at all other points. Strides, dilations and padding are in the maps, and
agree if these do. "" means: not so.
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
"""More places for one window in another are not tried."""


class Enlarged(NamedTuple):
    """Over the larger window: where the operand is read, and where the weights are, as 0 but at points of their own."""

    read: AxisMap
    weights: AxisMap


@Primitive
def enlarged(part: str, m: str, n: str, u: str, k: str, j: str) -> str:
    """Where x and c are read over j (`read`, `weights`)."""
    return part_of(_enlarged(m, n, u, k, j), part)


@lru_cache(maxsize=_CACHE)
def _enlarged(m: str, n: str, u: str, k: str, j: str) -> Enlarged | None:
    if len(parse_sizes(k)) != len(parse_sizes(j)):
        return None
    return enlarge(parse_map(m), parse_map(n), parse_map(u), len(parse_sizes(k)))


def enlarge(read: AxisMap, weights: AxisMap, larger: AxisMap, reduced: int) -> Enlarged | None:
    """Where a product over `reduced` axes, whose operand is read by `read` and its weights by `weights`, reads both
    over the window by which another product reads that operand, `larger`; None where that is not a larger one."""
    own = len(read.sizes) - reduced
    if len(larger.sizes) != len(read.sizes) or weights.sizes != read.sizes or 0 in (*read.sizes, *larger.sizes):
        return None
    room = [wide - size for size, wide in zip(read.sizes[own:], larger.sizes[own:], strict=True)]
    if min(room, default=0) < 0 or not any(room) or math.prod(each + 1 for each in room) > _OFFSETS:
        return None
    here = _over(larger, read.sizes[:own])
    if here is None or not all(math.isfinite(guard.fill) for guard in here.guards):
        return None
    for offsets in product(*(range(each + 1) for each in room)):
        low = (*[0] * own, *offsets)
        inside = shrink(here.sizes, low, [a + b for a, b in zip(low, read.sizes, strict=True)])
        if axis_map.compose(here, inside) == read:
            around = [(a, wide - a - size) for a, wide, size in zip(low, here.sizes, read.sizes, strict=True)]
            return Enlarged(here, axis_map.compose(weights, pad(read.sizes, around)))
    return None


def _over(view: AxisMap, outer: tuple[int, ...]) -> AxisMap | None:
    """The map over outer axes of these sizes, where it depends on none that has another."""
    differing = [each for each, size in enumerate(outer) if size != view.sizes[each]]
    kept = [each for each in range(len(view.sizes)) if each not in differing]
    found = axis_map.project(view, kept)
    return None if found is None else axis_map.insert_axes(found, differing, [outer[each] for each in differing])
