"""The box of a block of rows: all elements of the broadcast operand that the rows read, and the padding around them.

    conv 3 × 3 by rows y in [y0, y0 + 4):   x[y + r - 1, z + s - 1, c]   box [y0 - 1, y0 + 5) × [-1, W + 1) × C

A task copies its box once. A register tile reads the elements in the box, where neighbouring rows lie at equal
distances. Panels of packed rows would hold an element once per position of the window instead.
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
"""The first value, and the end: one past the last."""


@dataclass(frozen=True)
class RowBox:
    """The box of a block of rows, by the coordinates of the operand.

    at       the coordinates that are read, over the digits of the contraction
    inside   per coordinate: the range without padding
    padded   whether there may be padding
    cut      index into the view's rows of the digit that blocks split; digits before it have one value per block,
             digits after it all values
    low      per coordinate: the box's first coordinate minus that of the block's first row at term 0
    extents  per coordinate: elements
    """

    at: tuple[AxisExpr, ...]
    inside: tuple[Range, ...]
    padded: bool
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


def has_even_rows(view: Contraction, mr: int) -> bool:
    """Whether the rows of every register tile of `mr` rows lie at equal distances, in memory or in the box."""
    return bool(view.rows) and view.m > 0 and view.sizes[view.rows[-1]] % mr == 0


def has_even_columns(view: Contraction, nr: int) -> bool:
    """Whether the columns of every register tile of `nr` columns are neighbours along the innermost axis of columns."""
    return bool(view.columns) and view.n > 0 and view.sizes[view.columns[-1]] % nr == 0


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
    """The box of a block of `bm` rows. None where the coordinates are not affine in the digits, where the padding is
    not zero or is no range of one coordinate, or where `bm` rows are no whole number of steps of one digit."""
    coordinates, cut = _coordinates(view), _cut(view, bm)
    if coordinates is None or cut is None:
        return None
    at, inside, padded = coordinates
    index, points = cut
    whole = (*view.rows[index + 1 :], *view.k)
    sizes = {view.rows[index]: points, **{digit: view.sizes[digit] for digit in whole}}
    steps = tuple((0, sizes.get(digit, 1) - 1) for digit in range(len(view.sizes)))
    spans = [interval(AxisExpr(0, expr.terms), steps) for expr in at]
    return RowBox(
        at, inside, padded, index, tuple(low for low, _ in spans), tuple(high - low + 1 for low, high in spans)
    )


@lru_cache(maxsize=64)
def boxed_blocks(view: Contraction) -> tuple[tuple[int, int], ...]:
    """The rows of blocks that have a box, and the elements of each box: even parts of a digit that is alone, else
    divisors, with all digits inside. The largest first."""
    sizes: set[int] = set()
    inner = 1
    for index in reversed(range(len(view.rows))):
        size = view.sizes[view.rows[index]]
        alone = view.extent(view.rows[:index]) == 1
        parts = {-(-size // count) for count in range(1, size + 1)} if alone else _divisors(size)
        sizes |= {points * inner for points in parts}
        inner *= size
    boxes = ((bm, row_box(view, bm)) for bm in sorted(sizes, reverse=True))
    return tuple((bm, box.elements) for bm, box in boxes if box is not None)


def _divisors(size: int) -> set[int]:
    return {count for count in range(1, size + 1) if size % count == 0}


def _cut(view: Contraction, bm: int) -> tuple[int, int] | None:
    """The index among the rows of the digit that blocks of `bm` rows split, and its values in a block; None where a
    block would hold parts of the values of two digits."""
    inner = 1
    for index in reversed(range(len(view.rows))):
        size = view.sizes[view.rows[index]]
        if bm < inner * size or index == 0:
            points = min(bm // inner, size)
            alone = view.extent(view.rows[:index]) == 1 or (points and size % points == 0)
            return (index, points) if alone and points and (bm % inner == 0 or bm > view.m) else None
        inner *= size
    return None


@lru_cache(maxsize=256)
def _coordinates(view: Contraction) -> tuple[tuple[AxisExpr, ...], tuple[Range, ...], bool] | None:
    """The coordinates at which the broadcast operand is read, over the digits, their ranges without padding, and
    whether there may be padding."""
    operand = view.operand(1 - view.vector)
    at = compose(operand.map, view.roles.point)
    inside = [(0, size) for size in _shape(view, operand)]
    if at.is_empty or not all(expr.is_affine for expr in at.exprs) or any(guard.fill != 0 for guard in at.guards):
        return None
    for bound in (bound for guard in at.guards for bound in guard.bounds):
        ranges = [_range(expr, bound) for expr in at.exprs]
        limited = next((place for place, limits in enumerate(ranges) if limits), None)
        limits = None if limited is None else ranges[limited]
        if limited is None or limits is None:
            return None
        inside[limited] = max(inside[limited][0], limits[0]), min(inside[limited][1], limits[1])
    return (at.exprs, tuple(inside), bool(at.guards)) if all(low < high for low, high in inside) else None


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
