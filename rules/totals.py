"""Where constants are read that are summed once for all: index algebra of the rules that take a sum apart, on texts.

Σₖ x(i,k)·y(i,k) has one element for each point of the axes of i along which x or y moves. "" means: not so.
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
    """Where x and y are read over the axes that count and k, the sizes of their sum, and where it is read over all."""

    first: AxisMap
    second: AxisMap
    sizes: str
    read: AxisMap


@Primitive
def total(part: str, x: str, y: str, k: str) -> str:
    """Where x and y are read (`first`, `second`), the `sizes` of their sum, and where that is read (`read`)."""
    return part_of(_total(x, y, k), part)


@lru_cache(maxsize=_CACHE)
def _total(x: str, y: str, k: str) -> _Total | None:
    first, second = parse_map(x), parse_map(y)
    if first.sizes != second.sizes or first.is_empty:
        return None
    own = len(first.sizes) - len(parse_sizes(k))
    used = [each for each in range(own) if each in axis_map.support(first) | axis_map.support(second)]
    kept = [*used, *range(own, len(first.sizes))]
    one, two = axis_map.project(first, kept), axis_map.project(second, kept)
    if one is None or two is None:
        return None
    outer = first.sizes[:own]
    box = box_of(outer)
    read = axis_map.axis_map(outer, [axis(each, box) for each in used])
    return _Total(one, two, sizes_text(one.sizes[: len(used)]), read)
