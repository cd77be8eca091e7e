"""Regions that only put their inputs side by side, and the box of the output that every input fills.

    whole = where(i3 < 64, x[i0, i1, i2, i3], y[i0, i1, i2, i3 - 64])      x fills [:, :, :, 0:64]

Such a region moves elements without computing anything. If the kernels of the inputs write into the boxes, nothing is
left to do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ir.dtype import DTYPES
from ir.index.expr import AxisExpr, Box, box_of, constant, interval
from ir.index.guard import Bound
from ir.index.map import AxisMap, compose
from ir.region.region import Number, Operand, Region

_FAR = 1 << 62
_BOUNDS = {"cmplt": (-_FAR, 0), "cmple": (-_FAR, 1), "cmpgt": (1, _FAR), "cmpge": (0, _FAR)}
"""Comparison → the bounds of x - y, from the first one up to the second one, between which it holds."""
_KINDS = frozenset({"index", "ewise", "copy"})


class InputBox(NamedTuple):
    """The box of the output that an input fills: `size` elements from `first` on along `axis`, whole along other axes.
    axes: for every axis of the input the axis of the output along which it lies; None for an axis of size 1 that has
    none."""

    input: int
    axes: tuple[int | None, ...]
    axis: int
    first: int
    size: int


def input_boxes(region: Region) -> tuple[InputBox, ...] | None:
    """The boxes of all inputs of a region that puts two inputs or more side by side in row-major order; they are in the
    order of their places, and fill the output. None for any other region."""
    if len(region.outputs) != 1 or len(region.inputs) < 2 or any(let.op.kind not in _KINDS for let in region.body):
        return None
    (output,), (end,) = region.outputs, region.yields
    if end.at is not None or 0 in output.memref.shape:
        return None
    try:
        pieces = list(_BoxWalk(region).pieces(Operand(end.value, end.map), box_of(output.memref.shape)))
        boxes = [_input_box(region, buffer, pieces) for buffer in dict.fromkeys(piece.buffer for piece in pieces)]
    except _IsNoConcatenationError:
        return None
    boxes.sort(key=lambda box: box.first)
    is_whole = sum(box.size for box in boxes) == output.memref.shape[boxes[0].axis]
    if len(boxes) != len(region.inputs) or len({box.axis for box in boxes}) != 1 or not is_whole:
        return None
    return tuple(boxes)


def frame_of_box(axes: Sequence[int | None], outer: Sequence[int]) -> tuple[int, ...]:
    """The shape of a row-major tensor that has the strides of a box. axes: as in `InputBox`; outer: the shape of the
    row-major tensor in which the box lies."""
    sizes, before = [], 0
    for axis in axes:
        sizes.append(1 if axis is None else math.prod(outer[before : axis + 1]))
        before = before if axis is None else axis + 1
    return tuple(sizes)


class _IsNoConcatenationError(Exception):
    """The region does more than to put its inputs side by side."""


class _SourceBox(NamedTuple):
    """A box of the output, and where its elements come from."""

    box: Box
    buffer: str
    map: AxisMap


class _BoxWalk:
    """A walk from the output to the inputs. Boxes are boxes of the output."""

    def __init__(self, region: Region) -> None:
        self._ops = {let.name: let.op for let in region.body}
        self._dtype = region.outputs[0].memref.dtype

    def pieces(self, read: Operand, box: Box) -> Iterator[_SourceBox]:
        """The pieces of a box of a value. read: maps a point of the output to the value's."""
        for inside, fill in self._through_guards(read.map, box):
            op = self._ops.get(read.value)
            if fill is not None:
                raise _IsNoConcatenationError
            if op is None:
                yield _SourceBox(inside, read.value, read.map)
            elif op.dtype != self._dtype:
                raise _IsNoConcatenationError
            elif op.kind == "copy":
                yield from self.pieces(_through(op.inputs[0], read.map), inside)
            elif op.fn == "where":
                for part, holds in self._truths(_through(op.inputs[0], read.map), inside):
                    yield from self.pieces(_through(op.inputs[1 if holds else 2], read.map), part)
            else:
                raise _IsNoConcatenationError

    def _through_guards(self, read: AxisMap, box: Box) -> Iterator[tuple[Box, float | None]]:
        """The box in parts: where the operand is read, None; elsewhere the number that stands in its place."""
        waiting = [box]
        for guard in read.guards:
            inside: list[Box] = []
            for part in waiting:
                within = [part]
                for bound in guard.bounds:
                    cut = [piece for one in within for piece in _cut(bound, one)]
                    yield from ((piece, guard.fill) for piece, holds in cut if not holds)
                    within = [piece for piece, holds in cut if holds]
                inside += within
            waiting = inside
        yield from ((part, None) for part in waiting)

    def _truths(self, read: Operand, box: Box) -> Iterator[tuple[Box, bool]]:
        """A box of a condition in parts in which the condition holds everywhere or nowhere."""
        op = self._ops.get(read.value)
        for inside, fill in self._through_guards(read.map, box):
            if fill is not None:
                yield inside, bool(fill)
            elif op is None or op.fn not in _BOUNDS:
                raise _IsNoConcatenationError
            else:
                first, second = (self._index(operand, read.map, inside) for operand in op.inputs)
                yield from _cut(Bound(first - second, *_BOUNDS[op.fn]), inside)

    def _index(self, operand: Operand | Number, at: AxisMap, box: Box) -> AxisExpr:
        """An integer that depends on the point alone, and that its dtype holds at all points of the box."""
        if isinstance(operand, Number):
            if not isinstance(operand.number, int):
                raise _IsNoConcatenationError
            return constant(operand.number)
        read, op = _through(operand, at), self._ops.get(operand.value)
        if op is None or op.index_map is None or read.map.guards:
            raise _IsNoConcatenationError
        (expr,) = compose(op.index_map, read.map).exprs
        (low, high), kind = interval(expr, box), DTYPES[op.dtype]
        if not kind.is_int or low < kind.lowest or high > kind.highest:
            raise _IsNoConcatenationError
        return expr


def _through(operand: Operand | Number, at: AxisMap) -> Operand:
    if not isinstance(operand, Operand):
        raise _IsNoConcatenationError
    return Operand(operand.value, compose(operand.map, at))


def _cut(bound: Bound, box: Box) -> Iterator[tuple[Box, bool]]:
    """A box in up to three parts by whether a bound on one axis holds."""
    low, high = interval(bound.expr, box)
    if bound.lo <= low and high < bound.hi:
        yield box, True
    elif high < bound.lo or bound.hi <= low:
        yield box, False
    else:
        axis = bound.expr.lone_axis
        if axis is None:
            raise _IsNoConcatenationError
        first, last = box[axis]
        begin = min(max(first, bound.lo - bound.expr.const), last + 1)
        end = max(min(last + 1, bound.hi - bound.expr.const), begin)
        for start, stop, holds in ((first, begin, False), (begin, end, True), (end, last + 1, False)):
            if start < stop:
                yield (*box[:axis], (start, stop - 1), *box[axis + 1 :]), holds


def _input_box(region: Region, buffer: str, pieces: Sequence[_SourceBox]) -> InputBox:
    """The box that the pieces from one input make together."""
    own = [piece for piece in pieces if piece.buffer == buffer]
    position, shape = _position(region, buffer)
    output = region.outputs[0].memref
    if region.inputs[position].memref.dtype != output.dtype or len({piece.map.exprs for piece in own}) != 1:
        raise _IsNoConcatenationError
    cut = {
        axis
        for piece in own
        for axis, (bounds, size) in enumerate(zip(piece.box, output.shape, strict=True))
        if bounds != (0, size - 1)
    }
    if len(cut) != 1:
        raise _IsNoConcatenationError
    (axis,) = cut
    ranges = sorted(piece.box[axis] for piece in own)
    if any(last + 1 != first for (_, last), (first, _) in itertools.pairwise(ranges)):
        raise _IsNoConcatenationError
    first, end = ranges[0][0], ranges[-1][1] + 1
    axes = _axes(own[0].map, shape, axis, first)
    sizes = [end - first if place == axis else size for place, size in enumerate(output.shape)]
    named = [place for place in axes if place is not None]
    fits = all(shape[k] == sizes[place] for k, place in enumerate(axes) if place is not None)
    left_out = math.prod(size for place, size in enumerate(sizes) if place not in named)
    ends_in_neighbours = bool(named) and math.prod(output.shape[named[-1] + 1 :]) == 1
    if not fits or named != sorted(set(named)) or left_out != 1 or not ends_in_neighbours:
        raise _IsNoConcatenationError
    return InputBox(position, axes, axis, first, end - first)


def _position(region: Region, buffer: str) -> tuple[int, tuple[int, ...]]:
    """The place of an input, and its shape."""
    for position, one in enumerate(region.inputs):
        if one.name == buffer:
            return position, one.memref.shape
    raise _IsNoConcatenationError


def _axes(read: AxisMap, shape: Sequence[int], axis: int, first: int) -> tuple[int | None, ...]:
    """For every axis of an input the axis of the output along which it lies."""
    axes: list[int | None] = []
    for expr, size in zip(read.exprs, shape, strict=True):
        along = expr.lone_axis
        if size > 1 and (along is None or expr.const != (-first if along == axis else 0)):
            raise _IsNoConcatenationError
        axes.append(along if size > 1 else None)
    last = len(read.sizes) - 1
    if axes and axes[-1] is None and last not in axes:
        axes[-1] = last  # a column of one element in a row of several
    return tuple(axes)
