"""Sums of constants that are computed once: index algebra, on texts, of the rules that take a sum apart.

Σₖ x(i, k)·y(i, k) needs one element for each point of the axes of i on which x or y depends. The answer "" says that
there is no such sum.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ir.index import map as axis_map
from ir.index.expr import axis, box_of
from ir.index.map import AxisMap, parse_map
from ir.term.language import Primitive
from ir.term.text import parse_sizes, sizes_text
from rules.primitives import part_of

_CACHE = 1 << 14


class _Total(NamedTuple):
    """The maps of x and y over the axes on which either depends and k; the sizes of their sum; the map that reads the
    sum."""

    first: AxisMap
    second: AxisMap
    sizes: str
    read: AxisMap


@Primitive
def total(part: str, x: str, y: str, k: str) -> str:
    """Of the sum of x·y over k: the map of x (`first`) or y (`second`), its `sizes`, or the map that reads it
    (`read`)."""
    return part_of(_total(x, y, k), part)


@lru_cache(maxsize=_CACHE)
def _total(x: str, y: str, k: str) -> _Total | None:
    first, second = parse_map(x), parse_map(y)
    if first.sizes != second.sizes or first.is_empty:
        return None
    own = len(first.sizes) - len(parse_sizes(k))
    used = [place for place in range(own) if place in axis_map.support(first) | axis_map.support(second)]
    kept = [*used, *range(own, len(first.sizes))]
    one, two = axis_map.project(first, kept), axis_map.project(second, kept)
    if one is None or two is None:
        return None
    outer = first.sizes[:own]
    box = box_of(outer)
    read = axis_map.axis_map(outer, [axis(place, box) for place in used])
    return _Total(one, two, sizes_text(one.sizes[: len(used)]), read)
