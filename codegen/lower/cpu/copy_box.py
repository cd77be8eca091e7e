"""Copies the box of a block of rows: the elements that the rows read, with zeros for the padding around them.

    for y in max(y0, 0) .. min(y0 + 6, H): for z in 0 .. W: for c in 0 .. C step lanes
      box[(y - y0)·(W + 2)·C + (z + 1)·C + c] = x[(y·W + z)·C + c]

Each element is computed once per box, also where the operand is a value of the prologue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, greatest, lanes_along, least
from codegen.lower.cpu.lane_values import convert
from codegen.plan.cpu.row_box import RowBox
from ir.index.expr import ZERO, AxisExpr, constant, floordiv
from ir.index.strides import flat, row_major
from ir.kernel.cpu.nodes import Store
from ir.kernel.nodes import Const


@dataclass(frozen=True)
class PlacedBox:
    """A box in the scratch buffer `buffer`. start: the coordinates of the first element."""

    box: RowBox
    buffer: str
    start: tuple[AxisExpr, ...]

    def offset(self, at: tuple[AxisExpr, ...]) -> AxisExpr:
        """The element of the buffer at these coordinates of the operand."""
        return flat([here - first for here, first in zip(at, self.start, strict=True)], row_major(self.box.extents))


def place_box(frame: CpuContractionFrame, box: RowBox, buffer: str, row: AxisExpr) -> PlacedBox:
    """The box of the block of rows that starts at `row`, where the frame binds the other digits."""
    rows = frame.view.rows
    inner = frame.view.extent(rows[box.cut + 1 :])
    digits = frame.along(rows[: box.cut + 1], floordiv(row, inner, frame.writer.box))
    first = frame.with_digits({**digits, **dict.fromkeys((*rows[box.cut + 1 :], *frame.view.k), ZERO)})
    start = (at.shift(low) for at, low in zip(first.place(box.at), box.low, strict=True))
    return PlacedBox(box, buffer, tuple(start))


def copy_box(frame: CpuContractionFrame, block: CpuBlock, placed: PlacedBox) -> None:
    """Adds the copying to `block`: zeros first, where there may be padding, then the elements that exist."""
    box = placed.box
    if box.padded:
        _zero(frame, block, placed)
    _copy(frame, block, placed, {}, [place for place in range(len(box.extents)) if place != box.lanes])


def _zero(frame: CpuContractionFrame, block: CpuBlock, placed: PlacedBox) -> None:
    writer = frame.writer
    x = writer.variable("z", 0, placed.box.elements - 1)
    body = block.inner({x})
    body.add(Store(writer.buffer(placed.buffer), writer.axis(x), Const(0, frame.view.accumulator)))
    block.loop(body, x, ZERO, constant(placed.box.elements), frame.lanes)


def _copy(
    frame: CpuContractionFrame, block: CpuBlock, placed: PlacedBox, at: Mapping[int, AxisExpr], left: Sequence[int]
) -> None:
    """Loops over the coordinates `left`, then over lanes. at: the coordinates of the loops around."""
    writer, box = frame.writer, placed.box
    place = left[0] if left else box.lanes
    low, high = box.inside[place]
    start, stop = placed.start[place], placed.start[place].shift(box.extents[place])
    first = greatest(block, "first", [start, constant(low)], high)
    last = least(block, "last", [stop, constant(high)], high)
    variable = writer.variable("x", low, high - 1)
    body = block.inner({variable})
    here = {**at, place: writer.axis(variable)}
    if left:
        _copy(frame, body, placed, here, left[1:])
        block.loop(body, variable, first, last)
        return
    length = last - first
    whole = not length.terms and length.const % frame.lanes == 0
    lanes_along(body, variable, [last - writer.axis(variable)], whole=whole)
    point = tuple([here[coordinate] for coordinate in sorted(here)])
    operand = frame.view.operand(1 - frame.view.vector)
    value = frame.evaluator.value(operand.value, point, body)
    value = convert(value, frame.evaluator.dtype(operand.value), frame.view.accumulator)
    body.store(placed.buffer, placed.offset(point), value)
    block.loop(body, variable, first, last, frame.lanes)
