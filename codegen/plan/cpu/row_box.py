"""The box of a block of rows: all elements of the broadcast operand that the rows read, and the padding around them.

    conv 3 × 3 by rows y in [y0, y0 + 4):   x[y + r - 1, z + s - 1, c]   box [y0 - 1, y0 + 5) × [-1, W + 1) × C

A kernel copies the box once per block of rows. A register tile reads the elements in the box, where neighbouring rows
lie evenly apart. Panels of packed rows would hold an element once per position of the window instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from codegen.plan.contraction_view import Contraction
from ir.index.expr import AxisExpr, interval
from ir.index.guard import Bound
from ir.index.map import compose
from ir.region.region import Operand

Range = tuple[int, int]
"""The first value, and the first value behind the last."""


@dataclass(frozen=True)
class RowBox:
    """The box of a block of rows, by the coordinates of the operand.

    at       the coordinates that are read, over the digits of the contraction
    inside   per coordinate: the range without padding
    cut      the place among the digits of rows of the digit that blocks cut: a block has one value of the digits
             before this digit, and all values of the digits after
    low      per coordinate: the box starts so far from the coordinate of the block's first row and of term 0
    extents  per coordinate: elements
    """

    at: tuple[AxisExpr, ...]
    inside: tuple[Range, ...]
    cut: int
    low: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.extents)

    @property
    def lanes(self) -> int:
        """The innermost coordinate of several elements: lanes copy along this coordinate."""
        wide = [place for place, (low, high) in enumerate(self.inside) if high - low > 1]
        return wide[-1] if wide else len(self.extents) - 1


def lies_evenly(view: Contraction, mr: int) -> bool:
    """Whether the rows of every register tile of `mr` rows lie evenly apart, in memory or in the box."""
    return bool(view.rows) and view.m > 0 and view.sizes[view.rows[-1]] % mr == 0


def is_plain(view: Contraction) -> bool:
    """Whether the broadcast operand is a buffer of the accumulator's dtype that is read without padding, so that rows
    need no box."""
    side = 1 - view.vector
    buffers = {buffer.name: buffer for buffer in view.region.inputs}
    buffer = buffers.get(view.operand(side).value)
    padded = any(read.map.guards for read in view.roles.reads[side])
    return buffer is not None and buffer.memref.dtype == view.accumulator and not padded


@lru_cache(maxsize=256)
def row_box(view: Contraction, bm: int) -> RowBox | None:
    """The box of a block of `bm` rows. None where the coordinates are not affine in the digits, where padding is
    other than zero or does not end at a coordinate, or where blocks are no boxes of digits."""
    coordinates, cut = _coordinates(view), _cut(view, bm)
    if coordinates is None or cut is None:
        return None
    at, inside = coordinates
    place, points = cut
    whole = (*view.rows[place + 1 :], *view.k)
    sizes = {view.rows[place]: points, **{digit: view.sizes[digit] for digit in whole}}
    steps = tuple((0, sizes.get(digit, 1) - 1) for digit in range(len(view.sizes)))
    spans = [interval(AxisExpr(0, expr.terms), steps) for expr in at]
    return RowBox(at, inside, place, tuple(low for low, _ in spans), tuple(high - low + 1 for low, high in spans))


def _cut(view: Contraction, bm: int) -> tuple[int, int] | None:
    """The place of the digit of rows that blocks of `bm` rows cut, and its values in a block; None where a block would
    hold parts of the values of two digits."""
    inner = 1
    for place in reversed(range(len(view.rows))):
        size = view.sizes[view.rows[place]]
        if bm < inner * size or place == 0:
            points = min(bm // inner, size)
            alone = view.extent(view.rows[:place]) == 1 or (points and size % points == 0)
            return (place, points) if alone and points and (bm % inner == 0 or bm > view.m) else None
        inner *= size
    return None


@lru_cache(maxsize=256)
def _coordinates(view: Contraction) -> tuple[tuple[AxisExpr, ...], tuple[Range, ...]] | None:
    """The coordinates at which the broadcast operand is read, over the digits, and their ranges without padding."""
    operand = view.operand(1 - view.vector)
    at = compose(operand.map, view.roles.point)
    inside = [(0, size) for size in _shape(view, operand)]
    if at.is_empty or not all(expr.is_affine for expr in at.exprs) or any(guard.fill != 0 for guard in at.guards):
        return None
    for bound in (bound for guard in at.guards for bound in guard.bounds):
        ranges = [_range(expr, bound) for expr in at.exprs]
        found = next((place for place, limits in enumerate(ranges) if limits), None)
        limits = None if found is None else ranges[found]
        if found is None or limits is None:
            return None
        inside[found] = max(inside[found][0], limits[0]), min(inside[found][1], limits[1])
    return (at.exprs, tuple(inside)) if all(low < high for low, high in inside) else None


def _range(coordinate: AxisExpr, bound: Bound) -> Range | None:
    """The range of a coordinate within a bound; None where the bound is not of this coordinate. A bound's expression
    has coprime coefficients, and no constant."""
    if not bound.expr.terms or len(coordinate.terms) != len(bound.expr.terms):
        return None
    (axis, unit), *_ = bound.expr.terms
    scale, rest = divmod(coordinate.coeff(axis) or 0, unit) if isinstance(axis, int) else (0, 0)
    if not scale or rest or bound.expr * scale != AxisExpr(0, coordinate.terms):
        return None
    first, last = sorted((bound.lo * scale, (bound.hi - 1) * scale))
    return coordinate.const + first, coordinate.const + last + 1


def _shape(view: Contraction, operand: Operand) -> tuple[int, ...]:
    """The shape of the buffer or value that an operand reads."""
    if operand.value in view.ops:
        return view.ops[operand.value].shape
    return next(buffer.memref.shape for buffer in view.region.inputs if buffer.name == operand.value)
