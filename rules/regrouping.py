"""Where the factors of products are read once their sums are regrouped: index algebra of the product rules, on texts.

A product of products, Σₖ x(i,k)·y(s(i,k)) with y(o) = Σⱼ c(o,j)·f(o,j), runs over the axes (i, k, j). Where c does
not depend on k it can wait: Σⱼ c(i,j)·t(u,j) with t(u,j) = Σₖ f·x, stored over those axes u of i (and of j) that f and
x depend on: first those of the factor on the left, so that products of one chain are one buffer however they came
about. `side` says where f stands. "" means here, too: not so.
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
from rules.primitives import YES, part_of

_CACHE = 1 << 14


class _Regrouped(NamedTuple):
    """outside: where c is read over (i, j); first, second: f and x over (u, k); sizes: of t; read: t over (i, j).
    terms of both sums before (as far as they are read) and after."""

    outside: AxisMap
    first: AxisMap
    second: AxisMap
    sizes: str
    read: AxisMap
    before: int
    after: int


@Primitive
def regrouped(part: str, side: str, x: str, s: str, c: str, f: str, k: str, j: str) -> str:
    """Of the products in the other order: where the factor that waits is read (`outside`), where the two that are
    multiplied first are, that of the inner product before that of the outer (`first`, `second`), and the `sizes` of
    their product and where it is read (`read`)."""
    return part_of(_regrouped(side, x, s, c, f, k, j), part)


@Primitive
def computes_less(side: str, x: str, s: str, c: str, f: str, k: str, j: str) -> str:
    """Both sums together have fewer terms than before."""
    found = _regrouped(side, x, s, c, f, k, j)
    return YES if found and found.after < found.before else ""


@lru_cache(maxsize=_CACHE)
def _regrouped(side: str, x: str, s: str, c: str, f: str, k: str, j: str) -> _Regrouped | None:
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
    left, right = (axis_map.support(each) for each in ((goes, x_map) if side == "left" else (x_map, goes)))
    free = [*(each for each in kept if each in left), *(each for each in kept if each in right - left)]
    over = (*free, *range(own, depth))
    first, second = (_over(each, over) for each in (goes, x_map))
    sizes = sizes_text(first.sizes[: len(free)])
    box = box_of(result.sizes)
    read = axis_map.axis_map(result.sizes, [axis(kept.index(each), box) for each in free])
    before = footprint(through) * math.prod(inner) + math.prod(outer.sizes)
    after = math.prod(first.sizes) + math.prod(result.sizes)
    return _Regrouped(result, first, second, sizes, read, before, after)


def _over(view: AxisMap, axes: tuple[int, ...]) -> AxisMap:
    """The map over these axes, which are all that it depends on."""
    found = axis_map.project(view, axes)
    assert found is not None, f"{view} depends on more than {axes}"
    return found


class _JointRead(NamedTuple):
    """Two maps over the axes that either depends on, and how a buffer of these axes, of these sizes, is read."""

    first: AxisMap
    second: AxisMap
    sizes: str
    read: AxisMap


@Primitive
def joint(part: str, x: str, y: str) -> str:
    """Of a buffer that holds a value for what both maps read: where they read for an element of it (`first`, `second`),
    its `sizes`, and where it is read (`read`)."""
    return part_of(_joint(x, y), part)


@Primitive
def depends_on_less(x: str, y: str) -> str:
    """`x` moves along no axis along which `y` does not."""
    return YES if axis_map.support(parse_map(x)) <= axis_map.support(parse_map(y)) else ""


@Primitive
def beside(view: str, through: str, type_: str) -> str:
    """Where a value at view(i) is read for the element T[through(i)] of this type, each of them read once."""
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
    """`view` with reduced axes of these sizes, on which it does not depend."""
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
    read = axis_map.axis_map(first.sizes, [axis(each, box) for each in used])
    one = _over(first, used)
    return _JointRead(one, _over(second, used), sizes_text(one.sizes), read)
