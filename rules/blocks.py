"""The blocks of a longer sum: index algebra, on texts, of the rules that make one product of two.

A sum over the points of k and a sum over the points of j become one sum where k and j differ along one axis at most.
Along this axis the points of k come first. A factor of one sum is read as 0 at the points of the other. The answer ""
says that there is no such sum.
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
    """The sizes of the longer sum."""
    stacked = _stack(k, j)
    return sizes_text(stacked.sizes) if stacked else ""


@Primitive
def first_block(read: str, through: str, k: str, j: str) -> str:
    """The map by which the stacked product reads a factor of the first product, for the elements that `through` reads.

    read: the map of the factor, over the axes of its product and k."""
    stacked = _stack(k, j)
    return _block(read, through, k, stacked.along, (0, stacked.second)) if stacked else ""


@Primitive
def second_block(read: str, through: str, k: str, j: str) -> str:
    """The map by which the stacked product reads a factor of the second product, for the elements that `through` reads.

    read: the map of the factor, over the axes of its product and j."""
    stacked = _stack(k, j)
    return _block(read, through, j, stacked.along, (stacked.first, 0)) if stacked else ""


@Primitive
def type_over(element: str, view: str) -> str:
    """The type of a value over the domain of `view`."""
    return type_text(TensorType.of(element, parse_map(view).sizes))


@Primitive
def in_place(type_: str) -> str:
    """The identity on a value of this type."""
    return str(identity(parse_type(type_).shape))


class _Stacked(NamedTuple):
    """The sizes of the longer sum, the axis along which its parts follow one another, and the sizes of both along
    it."""

    sizes: tuple[int, ...]
    along: int
    first: int
    second: int


@lru_cache(maxsize=_CACHE)
def _stack(k: str, j: str) -> _Stacked | None:
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
