"""The epilogue of a contraction: the ops on the sums of one register tile, vector by vector, and the store.

Lanes run along the columns, or along the rows where rows are neighbours in the output. Only rows and columns that exist
are read or written. The sums come from the workspace, or from the registers that hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from codegen.lower.cpu.builder import CpuBlock, LaneAxis
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, lanes_along
from codegen.lower.cpu.lane_values import convert
from codegen.lower.cpu.register_tile import Sums, TileSums, digits_of_rows
from codegen.plan.contraction_view import rows_are_neighbours
from ir.index.expr import AxisExpr, constant
from ir.kernel.cpu.nodes import Load, Value
from ir.kernel.nodes import Bind, Comment


def epilogue(
    frame: CpuContractionFrame, block: CpuBlock, ops: Sequence[str], row: AxisExpr, column: AxisExpr, sums: TileSums
) -> None:
    """Finishes the tile at `row`, `column`, whose sums are complete. `ops` are their names, for a comment."""
    view, blocks, writer = frame.view, frame.blocks, frame.writer
    block.add(Comment("epilogue: " + (", ".join(ops) or "store")))
    r, c = writer.variable("r", 0, view.m - 1), writer.variable("c", 0, view.n - 1)
    tile = {r: (row, blocks.mr, view.m), c: (column, blocks.nr, view.n)}
    along, across = (r, c) if rows_are_neighbours(view) else (c, r)
    outer = block.inner({across})
    alone = not writer.axis(along).terms  # then values would be hoisted above the sums that they need
    body = outer.inner({along}, barrier=alone)
    start, width, size = tile[along]
    left = [start.shift(width) - writer.axis(along), constant(size) - writer.axis(along)]
    even = width % writer.lanes == 0
    lanes_along(body, along, left[even:], whole=even and size % writer.lanes == 0)
    offset = sums.base + (writer.axis(r) - row) * sums.stride + (writer.axis(c) - column)
    placed = frame.with_digits({**frame.along(view.rows, writer.axis(r)), **frame.along(view.columns, writer.axis(c))})
    _finish(placed, body, _sums(placed, body, sums.buffer, offset))
    outer.loop(body, along, start, start.shift(width), writer.lanes, size)
    start, width, size = tile[across]
    block.loop(outer, across, start, start.shift(width), 1, size)


def held_epilogue(
    frame: CpuContractionFrame, block: CpuBlock, ops: Sequence[str], row: AxisExpr, column: AxisExpr, sums: Sums
) -> None:
    """Finishes the whole tile at `row`, `column`, whose complete sums are in registers: one vector of columns after
    another, all rows of each."""
    view, writer, lanes = frame.view, frame.writer, frame.lanes
    block.add(Comment("epilogue: " + (", ".join(ops) or "store")))
    rows = digits_of_rows(frame, block, row)
    for j in range(frame.blocks.nr // lanes):
        c = writer.variable("c", 0, view.n - 1)
        block.add(Bind(c, column.shift(j * lanes)))
        body = block.inner({c}, lane_axis=LaneAxis(c), barrier=True)
        placed = frame.with_digits(frame.along(view.columns, writer.counter(c)))
        for i, digits in enumerate(rows):
            _finish(placed.with_digits(digits), body, sums[i, j])
        block.add(*body.statements)


def _finish(frame: CpuContractionFrame, block: CpuBlock, sums: Value) -> None:
    """Writes one vector: the ops on the sums, the stores."""
    view, ev = frame.view, frame.evaluator
    ev.provide(view.name, convert(sums, view.accumulator, view.op.dtype))
    place = frame.place(view.roles.out.exprs)
    for result in view.region.yields:
        value = ev.stored_value(result, place, block, ())
        block.store(result.buffer, ev.offset(result.buffer, place), value)


def _sums(frame: CpuContractionFrame, block: CpuBlock, buffer: str, offset: AxisExpr) -> Value:
    lane = block.lane_axis
    assert lane is not None
    step = offset.coeff(lane.variable)
    if step == 0:
        return block.let("sum", Load(buffer, offset, frame.view.accumulator, "splat"))
    assert step is not None
    mode: Literal["unit", "strided"] = "unit" if step == 1 else "strided"
    return block.let("sum", Load(buffer, offset, frame.view.accumulator, mode, lane.count, step))
