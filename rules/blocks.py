"""Where the parts of a longer sum stand: index algebra of the rules that make one product of two, on texts.

A sum over the points of k and one over those of j are one where k and j differ along one axis at most: along it the
points of k come first. What belongs to one of them is read as 0 where the other stands. "" means: not so.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ir.dtype import TensorType
from ir.index import map as axis_map
from ir.index.map import identity, parse_map
from ir.index.moves import pad
from ir.term.language import Primitive
from ir.term.text import parse_sizes, parse_type, sizes_text, type_text

_CACHE = 1 << 14


@Primitive
def stacked_sizes(k: str, j: str) -> str:
    """The sizes of both sums as one."""
    found = _stacked(k, j)
    return sizes_text(found.sizes) if found else ""


@Primitive
def first_block(read: str, through: str, k: str, j: str) -> str:
    """Where a factor of the first product, read over its own axes and k, is read for what is at `through` in it."""
    found = _stacked(k, j)
    return _block(read, through, k, found.along, (0, found.second)) if found else ""


@Primitive
def second_block(read: str, through: str, k: str, j: str) -> str:
    """Where a factor of the second product, read over its own axes and j, is read for what is at `through` in it."""
    found = _stacked(k, j)
    return _block(read, through, j, found.along, (found.first, 0)) if found else ""


@Primitive
def type_over(element: str, view: str) -> str:
    """The type of a value over the domain of `view`."""
    return type_text(TensorType.of(element, parse_map(view).sizes))


@Primitive
def in_place(type_: str) -> str:
    """Where a value of this type is read as it lies."""
    return str(identity(parse_type(type_).shape))


class _Stacked(NamedTuple):
    """The sizes of both sums as one, the axis along which they follow one another, and how long either is there."""

    sizes: tuple[int, ...]
    along: int
    first: int
    second: int


@lru_cache(maxsize=_CACHE)
def _stacked(k: str, j: str) -> _Stacked | None:
    one, two = parse_sizes(k), parse_sizes(j)
    if not one or len(one) != len(two) or 0 in (*one, *two):
        return None
    differing = [at for at, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]]
    if len(differing) > 1:
        return None
    along = differing[0] if differing else one.index(max(one))
    sizes = tuple(size + two[at] if at == along else size for at, size in enumerate(one))
    return _Stacked(sizes, along, one[along], two[along])


@lru_cache(maxsize=_CACHE)
def _block(read: str, through: str, own: str, along: int, pads: tuple[int, int]) -> str:
    at = parse_map(through)
    here = axis_map.compose(parse_map(read), axis_map.lift(at, parse_sizes(own)))
    place = len(at.sizes) + along
    around = [pads if axis == place else (0, 0) for axis in range(len(here.sizes))]
    return str(axis_map.compose(here, pad(here.sizes, around)))
