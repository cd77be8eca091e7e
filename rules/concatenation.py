"""The parts of a concatenation: index algebra, on texts, of the rules that merge products.

Two products of one operand, x(i, k)·c(i, k) over i in D₁ and x(i, k)·f(i, k) over i in D₂, become one where D₁ and D₂
differ along one axis at most, on which x does not depend. Along this axis the points of D₁ come first. Tensors that are
added to two adjacent parts are concatenated in the same way. The answer "" says that this does not apply.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ir.index import map as axis_map
from ir.index.expr import interval
from ir.index.map import AxisMap, parse_map
from ir.index.moves import pad, shrink
from ir.term.language import Primitive
from ir.term.text import parse_sizes, parse_type, sizes_text
from rules.primitives import part_of, yes

_CACHE = 1 << 14


class _Merged(NamedTuple):
    """Over the joint domain: the maps of x, c and f, which give 0 outside their parts; the sizes of the merged product;
    the maps from each product to the merged one."""

    shared: AxisMap
    first: AxisMap
    second: AxisMap
    sizes: str
    of_first: AxisMap
    of_second: AxisMap


@Primitive
def merged(part: str, m: str, n: str, u: str, w: str, k: str) -> str:
    """Of the merged product: the map of x (`shared`), c (`first`) or f (`second`), its `sizes`, or the map that reads
    the first or the second product in it (`of_first`, `of_second`)."""
    return part_of(_merge(*map(parse_map, (m, n, u, w)), len(parse_sizes(k))), part)


class InputPlace(NamedTuple):
    """A run of inputs in a group of inputs that multiply one operand in the same way: the number of the group, how many
    members it has, the first input of the run, and the last."""

    group: int
    members: int
    first: int
    last: int

    def __str__(self) -> str:
        return ":".join(map(str, self))


@Primitive
def placed_together(before: str, after: str) -> str:
    """The place of a run from the group's first input on and the input `after` it, put together."""
    one, two = _place(before), _place(after)
    fits = one.group == two.group and one.first == 0 and one.last + 1 == two.first == two.last
    return str(one._replace(last=two.last)) if fits else ""


@Primitive
def is_whole(place: str) -> str:
    """`place` holds the whole group."""
    placed = _place(place)
    return yes(placed.first == 0 and placed.last + 1 == placed.members)


@Primitive
def is_partial(place: str) -> str:
    """`place` holds a part of its group."""
    return yes(not is_whole.fn(place))


@Primitive
def in_one_group(place: str, other: str) -> str:
    """Both places are in one group."""
    return yes(_place(place).group == _place(other).group)


def _place(text: str) -> InputPlace:
    return InputPlace(*map(int, text.split(":")))


def can_merge(m: AxisMap, n: AxisMap, u: AxisMap, w: AxisMap, reduced: int) -> bool:
    """Whether products over `reduced` axes, x(m)·c(n) and x(u)·f(w), are parts of one."""
    return _merge(m, n, u, w, reduced) is not None


@lru_cache(maxsize=_CACHE)
def _merge(shared: AxisMap, first: AxisMap, other: AxisMap, second: AxisMap, reduced: int) -> _Merged | None:
    rank = len(shared.sizes) - reduced
    if 0 in (*shared.sizes, *other.sizes) or (first.sizes, second.sizes) != (shared.sizes, other.sizes):
        return None
    along = _axis(shared, first, other, second, rank)
    if along is None:
        return None
    kept = [axis for axis in range(len(shared.sizes)) if axis != along]
    x = axis_map.project(shared, kept)
    if x is None or x != axis_map.project(other, kept):
        return None
    low, high = shared.sizes[along], other.sizes[along]
    c = axis_map.compose(
        first, pad(first.sizes, [(0, high if axis == along else 0) for axis in range(len(first.sizes))])
    )
    f = axis_map.compose(
        second, pad(second.sizes, [(low if axis == along else 0, 0) for axis in range(len(first.sizes))])
    )
    shape = c.sizes[:rank]
    start = [low if axis == along else 0 for axis in range(rank)]
    stop = [low if axis == along else size for axis, size in enumerate(shape)]
    of_first, of_second = shrink(shape, [0] * rank, stop), shrink(shape, start, shape)
    return _Merged(axis_map.insert_axes(x, [along], [low + high]), c, f, sizes_text(shape), of_first, of_second)


def _axis(shared: AxisMap, first: AxisMap, other: AxisMap, second: AxisMap, rank: int) -> int | None:
    """The axis along which the products are put together: the one where their domains differ, else the last axis on
    which both other operands depend, but x does not."""
    if len(shared.sizes) != len(other.sizes) or shared.sizes[rank:] != other.sizes[rank:]:
        return None
    differing = [axis for axis in range(rank) if shared.sizes[axis] != other.sizes[axis]]
    if differing:
        return differing[0] if len(differing) == 1 else None
    moving = axis_map.support(first) & axis_map.support(second)
    still = axis_map.support(shared) | axis_map.support(other)
    return next((axis for axis in reversed(range(rank)) if axis in moving - still), None)


class _Adjacent(NamedTuple):
    """Two adjacent slices of a buffer as one slice: the map of the buffer, the maps of the tensors beside the slices,
    the sizes, the maps from each slice to the joint one, and whether this is the whole buffer."""

    read: AxisMap
    first: AxisMap
    second: AxisMap
    sizes: str
    of_first: AxisMap
    of_second: AxisMap
    is_whole: bool


@Primitive
def adjacent(part: str, z: str, m: str, n: str, u: str, w: str) -> str:
    """Of the adjacent slices m and u of a buffer of type z as one slice: the map of the buffer (`read`), the map of the
    tensor beside m, which is read by n, (`first`) or beside u, by w, (`second`), the `sizes`, or the map that reads the
    first or the second slice in it (`of_first`, `of_second`)."""
    return part_of(_adjacent(z, m, n, u, w), part)


@Primitive
def are_whole(z: str, m: str, n: str, u: str, w: str) -> str:
    """The slices m and u of a buffer of type z are adjacent, and are the whole buffer."""
    joined = _adjacent(z, m, n, u, w)
    return yes(joined is not None and joined.is_whole)


@Primitive
def are_partial(z: str, m: str, n: str, u: str, w: str) -> str:
    """The slices m and u of a buffer of type z are adjacent, and are a part of the buffer."""
    joined = _adjacent(z, m, n, u, w)
    return yes(joined is not None and not joined.is_whole)


@lru_cache(maxsize=_CACHE)
def _adjacent(z: str, m: str, n: str, u: str, w: str) -> _Adjacent | None:
    whole = parse_type(z).shape
    one, first, two, second = map(parse_map, (m, n, u, w))
    if one.is_empty or two.is_empty or {len(one.sizes), len(two.sizes)} != {len(whole)}:
        return None
    if (first.sizes, second.sizes) != (one.sizes, two.sizes) or len(two.exprs) != len(whole):
        return None
    low = [interval(expr, two.interior)[0] for expr in two.exprs]
    stop = tuple(offset + size for offset, size in zip(low, two.sizes, strict=True))
    shape = tuple(end if offset else size for offset, end, size in zip(low, stop, one.sizes, strict=True))
    ends = [size if offset else 0 for offset, size in zip(low, one.sizes, strict=True)]
    inside = all(offset >= 0 and end == size <= most
                 for offset, end, size, most in zip(low, stop, shape, whole, strict=True))  # fmt: skip
    if not inside or low != ends or sum(map(bool, low)) != 1:
        return None
    start = [0] * len(whole)
    if (one, two) != (shrink(whole, start, one.sizes), shrink(whole, low, stop)):
        return None
    return _Adjacent(
        shrink(whole, start, shape),
        axis_map.compose(first, pad(one.sizes, [(0, b - a) for a, b in zip(one.sizes, shape, strict=True)])),
        axis_map.compose(second, pad(two.sizes, [(offset, 0) for offset in low])),
        sizes_text(shape),
        shrink(shape, start, one.sizes),
        shrink(shape, low, shape),
        shape == whole,
    )
