"""Functions on texts that rules call while they match: index algebra and properties of ops.

The answer "" says that the rule does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ir.dtype import dtype, is_widening, promote
from ir.index import map as axis_map
from ir.index.facts import picked_axes
from ir.index.guard import Guard, canonical_fill
from ir.index.injective import is_injective
from ir.index.map import parse_map
from ir.region.work import footprint
from ir.term.language import Primitive
from ir.term.text import number_text, parse_number, parse_sizes, parse_type, sizes_text
from rules.op_fills import Number, Operand, preimage, round_to, same_in

YES = "yes"

PIECEWISE = 12
"""The most floor divisions of a map: a map with more is not composed, and the buffer between is stored."""
_POINTS = 1 << 18
"""The most points at which the guards of windows are tried."""


def yes(holds: bool) -> str:
    """The answer of a primitive that is a condition."""
    return YES if holds else ""


def part_of(parts: tuple[object, ...] | None, name: str) -> str:
    """One field of an answer, as a text; "" where there is no answer."""
    return "" if parts is None else str(getattr(parts, name))


@Primitive
def compose(read: str, view: str) -> str:
    """i ↦ read(view(i)), unless this map has too many pieces."""
    composed = axis_map.compose(parse_map(read), parse_map(view))
    return str(composed) if axis_map.floors(composed) <= PIECEWISE else ""


@Primitive
def domain(view: str) -> str:
    """The sizes of the domain of `view`."""
    return sizes_text(parse_map(view).sizes)


@Primitive
def outer_sizes(read: str, sizes: str) -> str:
    """The sizes of the domain of `read`, without the reduced axes, which are the last."""
    return _without_last(parse_map(read).sizes, sizes)


@Primitive
def reads_all(view: str, type_: str) -> str:
    """`view` is the identity on a value of this type. A map alone cannot tell the identity from a slice."""
    return yes(_reads_all(view, type_))


@Primitive
def moves(view: str, type_: str) -> str:
    """`view` is not the identity on a value of this type."""
    return yes(not _reads_all(view, type_))


def _reads_all(view: str, type_: str) -> bool:
    return parse_map(view) == axis_map.identity(parse_type(type_).shape)


@Primitive
def undone(first: str, view: str, back: str) -> str:
    """`view` after `back` is the identity on the domain of `first`."""
    there = axis_map.compose(parse_map(view), parse_map(back))
    return yes(there == axis_map.identity(parse_map(first).sizes))


@Primitive
def unguarded(view: str) -> str:
    """`view` has no guard: it reads an element at every point."""
    return yes(not parse_map(view).guards)


@Primitive
def non_expanding(view: str) -> str:
    """`view` reads no element twice, so that no value that is inlined through it is computed twice."""
    return yes(is_injective(parse_map(view)))


@Primitive
def broadcasts(view: str, type_: str) -> str:
    """`view` reads whole axes of a value of this type, and repeats the value along other axes of its domain."""
    map_, shape = parse_map(view), parse_type(type_).shape
    picked = picked_axes(map_, shape)
    repeated = [axis for axis, size in enumerate(map_.sizes) if size > 1 and axis not in (picked or ())]
    return yes(picked is not None and bool(repeated))


@Primitive
def is_outer(left: str, right: str, type_: str) -> str:
    """A product of this type has more elements than its two factors together, which are read by these maps."""
    return yes(footprint(parse_map(left)) + footprint(parse_map(right)) < parse_type(type_).size)


@Primitive
def picks(view: str, type_: str, sizes: str) -> str:
    """`view` reads whole axes of a value of this type, each along one axis of its domain. The reduced axes, of these
    sizes, are among them."""
    map_ = parse_map(view)
    picked = picked_axes(map_, parse_type(type_).shape)
    reduced = range(len(map_.sizes) - len(parse_sizes(sizes)), len(map_.sizes))
    return yes(picked is not None and all(axis in picked for axis in reduced if map_.sizes[axis] > 1))


@Primitive
def typed(element: str, sizes: str) -> str:
    """The type of a value of this dtype and these sizes."""
    return f"{element}{sizes}"


@Primitive
def element_of(type_: str) -> str:
    """The dtype in a type's text."""
    return type_.partition("[")[0]


@Primitive
def filled_with(view: str, element: str, number: str) -> str:
    """Every fill of `view` is `number`."""
    fills = (number_text(guard.fill, dtype(element)) for guard in parse_map(view).guards)
    return yes(all(fill == number for fill in fills))


@partial(Primitive, sign="false")
def fill_everywhere(view: str, element: str) -> str:
    """The fill of a `view` that reads nothing at any index, as a number of dtype `element`."""
    fill = parse_map(view).fill
    return "" if fill is None else number_text(fill, dtype(element))


@Primitive
def fill_of_unary(view: str, op: str, result: str, x: str) -> str:
    """The view by which the operand of a unary op is read: the op takes each fill of this view to the fill of
    `view`."""
    return _refill(view, lambda fill: preimage(op, result, fill, ((x, None),)), 0)


@Primitive
def fill_of_binary(view: str, op: str, result: str, x: str, y: str, side: str) -> str:
    """The view by which operand `side` (0 or 1) of a binary op is read: the op takes the fills of both operands' views
    to the fill of `view`."""
    return _refill(view, lambda fill: preimage(op, result, fill, ((x, None), (y, None))), int(side))


@Primitive
def fill_of_ternary(view: str, op: str, result: str, x: str, y: str, z: str, side: str) -> str:
    """The view by which operand `side` (0, 1 or 2) of a ternary op is read: the op takes the fills of all operands'
    views to the fill of `view`."""
    return _refill(view, lambda fill: preimage(op, result, fill, ((x, None), (y, None), (z, None))), int(side))


@Primitive
def fill_beside(view: str, op: str, result: str, element: str, number: str, side: str) -> str:
    """The view by which the operand beside an immediate `number` is read: the op takes each fill of this view, with the
    number on `side` (0 or 1), to the fill of `view`."""
    sought: Operand = (element, None)
    known: Operand = (element, parse_number(number))
    operands = (known, sought) if side == "0" else (sought, known)
    return _refill(view, lambda fill: preimage(op, result, fill, operands), 1 - int(side))


@Primitive
def fill_of_reduction(view: str, op: str, result: str, sizes: str, x: str) -> str:
    """The view, lifted over `sizes`, by which the operand of a reduction is read: fills that reduce to themselves."""
    counts = parse_sizes(sizes)
    empty = 0 in counts

    def same(fill: Number) -> tuple[Number, ...] | None:
        fill = round_to(fill, dtype(result))
        fixed = {"sum": _is_zero(fill), "prod": fill == 1 or (_is_zero(fill) and not empty)}
        kept = fixed.get(op, not empty) and same_in(fill, dtype(result), dtype(x))
        return (fill,) if kept else None

    return _lift(_refill(view, same, 0), counts)


@Primitive
def fill_of_contraction(view: str, sizes: str) -> str:
    """The view, lifted over `sizes`, by which the operands of a contraction are read: its fills, if any, are 0."""
    return _lift(_refill(view, lambda fill: (0,) if _is_zero(fill) else None, 0), parse_sizes(sizes))


def _is_zero(fill: Number) -> bool:
    return fill == 0 and not str(float(fill)).startswith("-")


@Primitive
def fill_of_windows(view: str, op: str, element: str, reduced: str) -> str:
    """The view by which windows read integers instead of floats: the fill, −∞ for "max" and ∞ for "min", becomes the
    least or the greatest integer. "" where another number fills it, or a window holds nothing but fills."""
    kind = dtype(element)
    infinity, end = (-math.inf, kind.lowest) if op == "max" else (math.inf, kind.highest)
    if not kind.is_int or not _every_window_reads(view, len(parse_sizes(reduced))):
        return ""
    return _refill(view, lambda fill: (end,) if fill == infinity else None, 0)


@lru_cache(maxsize=1 << 14)
def _every_window_reads(view: str, reduced: int) -> bool:
    """Whether every window of the last `reduced` axes reads an element. Only the axes of guards are looked at."""
    map_ = parse_map(view)
    bounds = [bound for guard in map_.guards for bound in guard.bounds]
    axes = sorted({axis for bound in bounds for axis in bound.expr.axes})
    sizes = [map_.sizes[axis] for axis in axes]
    if 0 in map_.sizes or math.prod(sizes) > _POINTS:
        return False
    point: list[Any] = [0] * len(map_.sizes)
    for place, axis in enumerate(axes):
        point[axis] = np.arange(sizes[place]).reshape([-1 if one == place else 1 for one in range(len(axes))])
    inside = np.ones(sizes, np.bool_)
    for bound in bounds:
        value = bound.expr.eval(point)
        inside &= (bound.lo <= value) & (value < bound.hi)
    window = tuple(place for place, axis in enumerate(axes) if axis >= len(map_.sizes) - reduced)
    return bool(inside.any(axis=window).all())


def _lift(view: str, sizes: Sequence[int]) -> str:
    return str(axis_map.lift(parse_map(view), tuple(sizes))) if view else ""


def _refill(view: str, fill_of: Callable[[Number], tuple[Number, ...] | None], operand: int) -> str:
    """`view` with the fill of each guard replaced by the fill of one operand.

    "" where no operand gives a fill. "" also for a view that reads nothing: such a view is a number, and an op makes a
    number from endlessly many others."""
    map_ = parse_map(view)
    if not map_.guards:
        return view
    if map_.fill is not None:
        return ""
    fills = [fill_of(guard.fill) for guard in map_.guards]
    if any(values is None for values in fills):
        return ""
    guards = [
        Guard(guard.bounds, canonical_fill(values[operand]))
        for guard, values in zip(map_.guards, fills, strict=True)
        if values is not None
    ]
    return str(axis_map.axis_map(map_.sizes, map_.exprs, guards))


@Primitive
def accumulates_exactly(element: str) -> str:
    """Values of this dtype are computed and summed in this dtype: fp32, fp64, integers."""
    return yes(dtype(element).accumulator == dtype(element))


@Primitive
def takes_sign(op: str, element: str, wide: str) -> str:
    """0 `op` v is the same number in dtype `element` as in `wide`: integers of two dtypes wrap at different numbers."""
    return yes(op == "add" or dtype(element).is_float or element == wide)


@Primitive
def accumulates(product: str, total: str) -> str:
    """A product of floats is at least as exact in the accumulator of `total` as in its own dtype."""
    narrow, wide = dtype(product).accumulator, dtype(total).accumulator
    return yes(promote(narrow, wide) == wide)


@Primitive
def totals_alike(term: str, total: str) -> str:
    """Terms of this dtype have the same total before and after a widening cast to it: integers wrap alike."""
    both_integers = dtype(term).is_int and dtype(total).is_int
    return yes(both_integers or bool(accumulates.answer(term, total)))


@Primitive
def widening_cast(source: str, to: str) -> str:
    """Every value of dtype `source` is a value of dtype `to`; both are floats, or both integers."""
    return yes(is_widening(dtype(source), dtype(to)))


SHORT = 383
"""The greatest magnitude of the difference of two 8-bit numbers, signed or not: 255 + 128."""


@Primitive
def byte(number: str) -> str:
    """`number` is an integer that i8 or u8 has."""
    value = parse_number(number)
    return yes(-128 <= value <= 255 and value == int(value))


@Primitive
def byte_fills(view: str) -> str:
    """Where `view` reads nothing, its value is an integer that i8 or u8 has."""
    return yes(all(byte.answer(str(guard.fill)) for guard in parse_map(view).guards))


@Primitive
def short_sum(sizes: str) -> str:
    """Over these sizes a sum of products of integers up to `SHORT` is an i32."""
    return yes(SHORT * SHORT * math.prod(parse_sizes(sizes)) < 2**31)


@Primitive
def same_value(number: str, other: str) -> str:
    """Two numbers of any dtypes have one value."""
    return yes(parse_number(number) == parse_number(other))


@Primitive
def medium(number: str) -> str:
    """`number` is positive, and its products with bytes and their quotients are no denormals and finite."""
    return yes(2.0**-100 <= parse_number(number) <= 2.0**100)


@Primitive
def no_byte_below(element: str, number: str) -> str:
    """`element` is i8 or u8, and none of its integers is below `number`."""
    return yes(element in ("i8", "u8") and parse_number(number) <= dtype(element).lowest)


@Primitive
def no_byte_above(element: str, number: str) -> str:
    """`element` is i8 or u8, and none of its integers is above `number`."""
    return yes(element in ("i8", "u8") and parse_number(number) >= dtype(element).highest)


@Primitive
def one_of(text: str, words: str) -> str:
    """`text` is one of these words."""
    return yes(text in words.split())


@Primitive
def idempotent(op: str) -> str:
    """`op` of a number with itself is that number: x ⊕ x = x."""
    return yes(op in ("max", "min"))


@Primitive
def without_unit(sizes: str) -> str:
    """No size is 1."""
    return yes(1 not in parse_sizes(sizes))


@Primitive
def without_units_sizes(sizes: str) -> str:
    """The sizes without the sizes 1; "" where no size is 1."""
    counts = parse_sizes(sizes)
    return sizes_text([size for size in counts if size != 1]) if 1 in counts else ""


@Primitive
def without_units(read: str, sizes: str) -> str:
    """`read` without its reduced axes of size 1."""
    counts = parse_sizes(sizes)
    return _drop_axes(read, [axis for axis, size in enumerate(counts) if size == 1], len(counts))


@Primitive
def without_repeats_sizes(read: str, sizes: str) -> str:
    """The sizes of the reduced axes that `read` depends on; "" where it depends on all, or an axis is empty."""
    repeated = _repeated_axes(read, sizes)
    kept = [size for axis, size in enumerate(parse_sizes(sizes)) if axis not in repeated]
    return sizes_text(kept) if repeated else ""


@Primitive
def without_repeats(read: str, sizes: str) -> str:
    """`read` without the reduced axes that it does not depend on."""
    return _drop_axes(read, _repeated_axes(read, sizes), len(parse_sizes(sizes)))


@Primitive
def repeats(read: str, sizes: str, element: str) -> str:
    """How often `read` repeats each element, as a number of dtype `element`; "" where this dtype has no such number."""
    counts = parse_sizes(sizes)
    times = math.prod(counts[axis] for axis in _repeated_axes(read, sizes))
    number = number_text(times, dtype(element))
    return number if parse_number(number) == times else ""


def _repeated_axes(read: str, sizes: str) -> list[int]:
    """The reduced axes, of more than one element, along which `read` is constant; none if any axis is empty."""
    map_, counts = parse_map(read), parse_sizes(sizes)
    first = len(map_.sizes) - len(counts)
    used = axis_map.support(map_)
    if map_.is_empty:
        return []
    return [axis for axis, size in enumerate(counts) if size > 1 and first + axis not in used]


def _drop_axes(read: str, dropped: Sequence[int], reduced: int) -> str:
    """`read` without some of its last `reduced` axes, on which it does not depend."""
    map_ = parse_map(read)
    first = len(map_.sizes) - reduced
    gone = {first + axis for axis in dropped}
    projected = axis_map.project(map_, [axis for axis in range(len(map_.sizes)) if axis not in gone])
    return "" if projected is None else str(projected)


@Primitive
def without_last(sizes: str, reduced: str) -> str:
    """The sizes of a domain without the reduced axes, which are the last."""
    return _without_last(parse_sizes(sizes), reduced)


def _without_last(sizes: Sequence[int], last: str) -> str:
    return sizes_text(sizes[: len(sizes) - len(parse_sizes(last))])


@Primitive
def joined(outer: str, inner: str) -> str:
    """The sizes of two nested reductions, outer first."""
    return sizes_text(parse_sizes(outer) + parse_sizes(inner))


@Primitive
def reduces(sizes: str) -> str:
    """A box of these sizes has no point, or more than one."""
    return yes(math.prod(parse_sizes(sizes)) != 1)


@Primitive
def several(sizes: str) -> str:
    """A box of these sizes has more than one point."""
    return yes(math.prod(parse_sizes(sizes)) > 1)


@Primitive
def nonempty(sizes: str) -> str:
    """No axis is empty."""
    return yes(0 not in parse_sizes(sizes))


@Primitive
def invariant(read: str, sizes: str) -> str:
    """`read` without its reduced axes; "" where it depends on one of them."""
    counts = parse_sizes(sizes)
    return _drop_axes(read, range(len(counts)), len(counts))
