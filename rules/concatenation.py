"""Where the parts of a concatenation stand: index algebra of the rules that merge products, on texts.

Two products of one operand, x(i,k)·c(i,k) over i in D₁ and x(i,k)·f(i,k) over i in D₂, become one where D₁ and D₂
differ along one axis at most, and x does not depend on that axis: it has both parts, those of D₁ first. What is added
to two parts that stand side by side is put together in the same way. "" means: not so.
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
from rules.primitives import YES, part_of

_CACHE = 1 << 14


class _Merged(NamedTuple):
    """Over the joint domain: where x, c and f are read, 0 outside the parts; the sizes of the results, and where each
    product is read in them."""

    shared: AxisMap
    first: AxisMap
    second: AxisMap
    sizes: str
    of_first: AxisMap
    of_second: AxisMap


@Primitive
def merged(part: str, m: str, n: str, u: str, w: str, k: str) -> str:
    """Of both products as one: where x, c and f are read (`shared`, `first`, `second`), its `sizes`, and where either
    stands in it (`of_first`, `of_second`)."""
    return part_of(_merged(m, n, u, w, k), part)


class InputPlace(NamedTuple):
    """The place of inputs that multiply one operand alike: the number of that group, how many it has, the first input
    of those that are put together here, and the last."""

    group: int
    members: int
    first: int
    last: int

    def __str__(self) -> str:
        return ":".join(map(str, self))


@Primitive
def placed_together(before: str, after: str) -> str:
    """The place of all inputs up to one, put together: those `before` are all that come before it."""
    one, two = _place(before), _place(after)
    fits = one.group == two.group and one.first == 0 and one.last + 1 == two.first == two.last
    return str(one._replace(last=two.last)) if fits else ""


@Primitive
def is_whole(place: str) -> str:
    """`place` is that of the whole group, put together."""
    found = _place(place)
    return YES if found.first == 0 and found.last + 1 == found.members else ""


@Primitive
def is_partial(place: str) -> str:
    """`place` is that of a part of its group."""
    return "" if is_whole.fn(place) else YES


@Primitive
def in_one_group(place: str, other: str) -> str:
    """Both places are of inputs that multiply one operand alike."""
    return YES if _place(place).group == _place(other).group else ""


def _place(text: str) -> InputPlace:
    return InputPlace(*map(int, text.split(":")))


def can_merge(m: AxisMap, n: AxisMap, u: AxisMap, w: AxisMap, reduced: int) -> bool:
    """Whether products over `reduced` axes, x(m)·c(n) and x(u)·f(w), are parts of one."""
    return _merged(str(m), str(n), str(u), str(w), sizes_text(m.sizes[len(m.sizes) - reduced :])) is not None


@lru_cache(maxsize=_CACHE)
def _merged(m: str, n: str, u: str, w: str, k: str) -> _Merged | None:
    shared, first, other, second = map(parse_map, (m, n, u, w))
    rank = len(shared.sizes) - len(parse_sizes(k))
    if 0 in (*shared.sizes, *other.sizes) or (first.sizes, second.sizes) != (shared.sizes, other.sizes):
        return None
    along = _axis(shared, first, other, second, rank)
    if along is None:
        return None
    kept = [each for each in range(len(shared.sizes)) if each != along]
    x = axis_map.project(shared, kept)
    if x is None or x != axis_map.project(other, kept):
        return None
    low, high = shared.sizes[along], other.sizes[along]
    c = axis_map.compose(
        first, pad(first.sizes, [(0, high if each == along else 0) for each in range(len(first.sizes))])
    )
    f = axis_map.compose(
        second, pad(second.sizes, [(low if each == along else 0, 0) for each in range(len(first.sizes))])
    )
    shape = c.sizes[:rank]
    start = [low if each == along else 0 for each in range(rank)]
    stop = [low if each == along else size for each, size in enumerate(shape)]
    of_first, of_second = shrink(shape, [0] * rank, stop), shrink(shape, start, shape)
    return _Merged(axis_map.insert_axes(x, [along], [low + high]), c, f, sizes_text(shape), of_first, of_second)


def _axis(shared: AxisMap, first: AxisMap, other: AxisMap, second: AxisMap, rank: int) -> int | None:
    """The axis along which the products are put together: where their domains differ, else the last that only the
    other operands move along."""
    if len(shared.sizes) != len(other.sizes) or shared.sizes[rank:] != other.sizes[rank:]:
        return None
    differing = [each for each in range(rank) if shared.sizes[each] != other.sizes[each]]
    if differing:
        return differing[0] if len(differing) == 1 else None
    moving = axis_map.support(first) & axis_map.support(second)
    still = axis_map.support(shared) | axis_map.support(other)
    return next((each for each in reversed(range(rank)) if each in moving - still), None)


class _Adjacent(NamedTuple):
    """Two slices of a buffer, the second where the first ends, as one: where the buffer is read, where the values
    beside the slices are, the sizes of all, where either stands in it, and whether it is the whole buffer."""

    read: AxisMap
    first: AxisMap
    second: AxisMap
    sizes: str
    of_first: AxisMap
    of_second: AxisMap
    is_whole: bool


@Primitive
def adjacent(part: str, z: str, m: str, n: str, u: str, w: str) -> str:
    """Of the slices m and u of a buffer of type z as one: where it is read (`read`), where what stands beside them is,
    by n and w (`first`, `second`), the `sizes`, and where either slice stands (`of_first`, `of_second`)."""
    return part_of(_adjacent(z, m, n, u, w), part)


@Primitive
def are_whole(z: str, m: str, n: str, u: str, w: str) -> str:
    """The adjacent slices m and u are all of their buffer, of type z."""
    found = _adjacent(z, m, n, u, w)
    return YES if found and found.is_whole else ""


@Primitive
def are_partial(z: str, m: str, n: str, u: str, w: str) -> str:
    """The slices m and u are adjacent, and a part of their buffer, of type z."""
    found = _adjacent(z, m, n, u, w)
    return YES if found and not found.is_whole else ""


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
