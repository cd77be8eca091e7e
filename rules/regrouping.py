"""Products of products in another order: index algebra, on texts, of the product rules.

A product of products, Σₖ x(i, k)·y(s(i, k)) with y(o) = Σⱼ c(o, j)·f(o, j), runs over the axes (i, k, j). Where c does
not depend on k, it can be multiplied last: Σⱼ c(i, j)·t(u, j) with t(u, j) = Σₖ f·x. The product t is stored over the
axes u of i and j on which f or x depends. The axes of the left factor come first, so that equal products of one chain
are one buffer, however they were grouped. `side` is the side on which f stands. The answer "" says that the order
cannot change.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from ir.index import map as axis_map
from ir.index.expr import ZERO, axis, box_of
from ir.index.facts import picked_axes
from ir.index.map import AxisMap, parse_map
from ir.region.work import footprint
from ir.term.language import Primitive
from ir.term.text import parse_sizes, parse_type, sizes_text
from rules.primitives import part_of, yes

_CACHE = 1 << 14


class _Regrouped(NamedTuple):
    """outside: the map of c over (i, j). first, second: the maps of f and x over (u, k). sizes: of t. read: the map of
    t over (i, j). before, after: the terms of both sums before (as far as they are read) and after."""

    outside: AxisMap
    first: AxisMap
    second: AxisMap
    sizes: str
    read: AxisMap
    before: int
    after: int


@Primitive
def regrouped(part: str, side: str, x: str, s: str, c: str, f: str, k: str, j: str) -> str:
    """A map or the sizes of the products in the other order.

    part: `outside` is the map of the factor that is multiplied last; `first` and `second` are the maps of the factors
    of the stored product, from the inner and from the outer product; `sizes` and `read` are the stored product's sizes
    and the map that reads it."""
    return part_of(_regroup(side, x, s, c, f, k, j), part)


@Primitive
def computes_less(side: str, x: str, s: str, c: str, f: str, k: str, j: str) -> str:
    """Both sums together have fewer terms in the other order."""
    regrouped = _regroup(side, x, s, c, f, k, j)
    return yes(regrouped is not None and regrouped.after < regrouped.before)


@lru_cache(maxsize=_CACHE)
def _regroup(side: str, x: str, s: str, c: str, f: str, k: str, j: str) -> _Regrouped | None:
    outer, through, waits, goes = map(parse_map, (x, s, c, f))
    summed, inner = parse_sizes(k), parse_sizes(j)
    if through.guards or 0 in (*outer.sizes, *inner, *waits.sizes):
        return None
    own = len(outer.sizes) - len(summed)
    depth = len(outer.sizes)
    lifted = axis_map.lift(through, inner)
    waits, goes = axis_map.compose(waits, lifted), axis_map.compose(goes, lifted)
    x_map = axis_map.insert_axes(outer, range(depth, depth + len(inner)), inner)
    kept = (*range(own), *range(depth, depth + len(inner)))
    result = axis_map.project(waits, kept)
    if result is None:
        return None
    left, right = (axis_map.support(view) for view in ((goes, x_map) if side == "left" else (x_map, goes)))
    free = [*(place for place in kept if place in left), *(place for place in kept if place in right - left)]
    over = (*free, *range(own, depth))
    first, second = (_over(view, over) for view in (goes, x_map))
    sizes = sizes_text(first.sizes[: len(free)])
    box = box_of(result.sizes)
    read = axis_map.axis_map(result.sizes, [axis(kept.index(place), box) for place in free])
    before = footprint(through) * math.prod(inner) + math.prod(outer.sizes)
    after = math.prod(first.sizes) + math.prod(result.sizes)
    return _Regrouped(result, first, second, sizes, read, before, after)


def _over(view: AxisMap, axes: tuple[int, ...]) -> AxisMap:
    """The map over these axes, which are all axes on which it depends."""
    projected = axis_map.project(view, axes)
    assert projected is not None, f"{view} depends on more than {axes}"
    return projected


class _JointRead(NamedTuple):
    """Two maps over the axes on which either depends; the sizes of a buffer over these axes; the map that reads it."""

    first: AxisMap
    second: AxisMap
    sizes: str
    read: AxisMap


@Primitive
def joint(part: str, x: str, y: str) -> str:
    """Of a buffer with one element for each pair of elements that the maps x and y read: the map from the buffer to the
    elements of x (`first`) or of y (`second`), its `sizes`, or the map that reads it (`read`)."""
    return part_of(_joint(x, y), part)


@Primitive
def depends_on_less(x: str, y: str) -> str:
    """Every axis on which `x` depends is an axis on which `y` depends."""
    return yes(axis_map.support(parse_map(x)) <= axis_map.support(parse_map(y)))


@Primitive
def beside(view: str, through: str, type_: str) -> str:
    """The map from an element T[through(i)] of this type to view(i); "" where `through` does not read each element
    once."""
    map_, read, shape = parse_map(view), parse_map(through), parse_type(type_).shape
    picked = picked_axes(read, shape)
    if picked is None or read.is_empty or map_.sizes != read.sizes:
        return ""
    if {k for k, size in enumerate(read.sizes) if size > 1} != set(picked):
        return ""
    box = box_of(shape)
    source = dict(zip(picked, (axis(k, box) for k, size in enumerate(shape) if size > 1), strict=True))
    back = axis_map.axis_map(shape, [source.get(k, ZERO) for k in range(len(read.sizes))])
    return str(axis_map.compose(map_, back))


@Primitive
def summed_over(view: str, sizes: str) -> str:
    """`view` over reduced axes of these sizes as well, on which it does not depend."""
    map_, counts = parse_map(view), parse_sizes(sizes)
    rank = len(map_.sizes)
    return str(axis_map.insert_axes(map_, range(rank, rank + len(counts)), counts))


@lru_cache(maxsize=_CACHE)
def _joint(x: str, y: str) -> _JointRead | None:
    first, second = parse_map(x), parse_map(y)
    if first.sizes != second.sizes or first.is_empty:
        return None
    used = tuple(sorted(axis_map.support(first) | axis_map.support(second)))
    box = box_of(first.sizes)
    read = axis_map.axis_map(first.sizes, [axis(place, box) for place in used])
    one = _over(first, used)
    return _JointRead(one, _over(second, used), sizes_text(one.sizes), read)
