"""Panels for matrix registers: the operands' elements in the order in which `ir.kernel.cpu.matrix` reads them.

    rows      panel[row][k]               neighbouring terms of a row, in the narrow dtype or in cells
    columns   panel[k / terms][column]    neighbouring terms of a column in one cell of 32 bits

Both have zeros after the last term, up to whole rows of a register. Zeros in one operand alone would make NaN of an
infinity in the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from codegen.lower.cpu.buffer_names import unused_name
from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock, lanes_along
from codegen.lower.cpu.pack import Panel, pack
from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.matrix_operands import cell_terms, matrix_dtypes, padded_depth, turns_rows
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, interval
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.cpu.matrix import ROWS
from ir.kernel.cpu.nodes import CpuCall, Load, Store, Transpose, Value
from ir.kernel.nodes import Const, register_type


def packed_matrix(view: Contraction, side: int, width: int) -> tuple[str, int]:
    """The dtype of operand `side` in panels of `width` rows or columns, and the elements of a panel of all terms."""
    if side == view.vector:
        return "i32", width * padded_depth(view, view.depth) // cell_terms(view)
    rows = packed_rows(view, view.depth)
    return rows.dtype, rows.stride * width


class PackedRows(NamedTuple):
    """Rows in a panel: the dtype of its elements, the elements of a cell, and the elements of a row."""

    dtype: str
    cell: int
    stride: int


def packed_rows(view: Contraction, depth: int) -> PackedRows:
    """Rows of `depth` terms in a panel: terms in their narrow dtype, or cells that are turned from columns of cells."""
    dtypes = matrix_dtypes(view)
    assert dtypes is not None
    terms = padded_depth(view, depth)
    if turns_rows(view):
        return PackedRows("i32", 1, terms // cell_terms(view))
    return PackedRows(dtypes[1 - view.vector], cell_terms(view), terms)


@dataclass(frozen=True)
class RowPanel:
    """`count` rows from `row` on in a buffer: the first at element `base`, and `stride` elements from row to row."""

    row: AxisExpr
    count: int
    buffer: str
    base: AxisExpr
    stride: int


def pack_rows(frame: CpuContractionFrame, block: CpuBlock, rows: RowPanel, depth: DepthBlock) -> None:
    """Adds the packing of the rows, for one block of k, to `block`."""
    write = _turn_cells if turns_rows(frame.view) else _pack_terms
    write(frame, block, rows, depth)


def _pack_terms(frame: CpuContractionFrame, block: CpuBlock, rows: RowPanel, depth: DepthBlock) -> None:
    """Packs rows term by term, with lanes along k; a constant's lanes may run along the rows."""
    view, writer = frame.view, frame.writer
    side = 1 - view.vector
    dtypes = matrix_dtypes(view)
    assert dtypes is not None
    panel = Panel(side, view.rows, rows.row, rows.count, view.m, rows.buffer, rows.base, 1, rows.stride, dtypes[side])
    pack(frame, block, panel, depth)
    if padded_depth(view, view.depth) == view.depth:
        return
    r = writer.variable("r", 0, rows.count - 1)
    body = block.inner({r})
    base = rows.base + writer.axis(r) * rows.stride
    _zero(body, rows.buffer, base, depth.count, _whole_rows(frame, depth), dtypes[side])
    block.loop(body, r, ZERO, constant(rows.count))


def _turn_cells(frame: CpuContractionFrame, block: CpuBlock, rows: RowPanel, depth: DepthBlock) -> None:
    """Packs rows with lanes along the rows, 16 rows at a time: numbers, cells of neighbouring terms, and squares of
    16 × 16 cells that are transposed."""
    view, writer, lanes = frame.view, frame.writer, frame.lanes
    side, frame = 1 - view.vector, replace(frame, aligned=frame.blocks.bm % ROWS == 0)
    r = writer.variable("r", 0, max(view.m - 1, 0))
    body = block.inner({r})
    first = writer.axis(r)
    numbers = _pack_numbers(frame, body, _Numbers(side, view.rows, first, ROWS, view.m), depth)
    square = writer.fresh("square")
    writer.private.append(Scratch(square, "i32", ROWS * ROWS))
    step = writer.variable("step", 0, padded_depth(view, depth.most) // (ROWS * cell_terms(view)) - 1)
    turned = body.inner({step})
    at = writer.axis(step)
    for c in range(ROWS):
        cells = _cells(frame, turned, numbers, (at * ROWS).shift(c), ROWS)
        turned.add(Store(square, constant(c * ROWS), cells[0]))
    to = rows.base + (first - rows.row) * rows.stride + at * ROWS
    turned.add(Transpose(writer.buffer(rows.buffer), to, rows.stride, square, ZERO, lanes))
    body.loop(turned, step, ZERO, register_steps(frame, depth))
    block.loop(body, r, rows.row, rows.row.shift(rows.count), ROWS, view.m)


def pack_cells(
    frame: CpuContractionFrame, block: CpuBlock, column: AxisExpr, buffer: str, base: AxisExpr, depth: DepthBlock
) -> None:
    """Packs the panel of columns from `column` on: first the terms as numbers, then cells of them."""
    view, writer, nr, lanes = frame.view, frame.writer, frame.blocks.nr, frame.lanes
    numbers = _pack_numbers(frame, block, _Numbers(view.vector, view.columns, column, nr, view.n), depth)
    cell = writer.variable("cell", 0, padded_depth(view, depth.most) // cell_terms(view) - 1)
    body = block.inner({cell})
    at = writer.axis(cell)
    for j, cells in enumerate(_cells(frame, body, numbers, at, nr)):
        body.add(Store(writer.buffer(buffer), (base + at * nr).shift(j * lanes), cells))
    block.loop(body, cell, ZERO, floordiv(_whole_rows(frame, depth), cell_terms(view), writer.box))


class _Numbers(NamedTuple):
    """`width` rows or columns of operand `side` from `start` on, of the `size` along `group`."""

    side: int
    group: tuple[int, ...]
    start: AxisExpr
    width: int
    size: int


def _pack_numbers(frame: CpuContractionFrame, block: CpuBlock, numbers: _Numbers, depth: DepthBlock) -> str:
    """The scratch buffer with an operand's numbers [k][width] in the dtype of sums, and zeros after the last term."""
    view, writer, width = frame.view, frame.writer, numbers.width
    name = unused_name(f"numbers{numbers.side}", view.region)
    writer.private.append(Scratch(writer.buffer(name), view.accumulator, padded_depth(view, depth.most) * width))
    side, group, start, _, size = numbers
    pack(frame, block, Panel(side, group, start, width, size, name, ZERO, width, 1), depth)
    if padded_depth(view, view.depth) != view.depth:
        _zero(block, name, ZERO, depth.count * width, _whole_rows(frame, depth) * width, view.accumulator)
    return writer.buffer(name)


def _cells(frame: CpuContractionFrame, block: CpuBlock, numbers: str, cell: AxisExpr, width: int) -> list[Value]:
    """Row `cell` of cells of a buffer of numbers, a register after another."""
    terms, dtype, lanes = cell_terms(frame.view), frame.view.accumulator, frame.lanes
    registers: list[Value] = []
    for j in range(width // lanes):
        places = ((cell * (terms * width)).shift(t * width + j * lanes) for t in range(terms))
        parts = tuple(block.let("term", Load(numbers, place, dtype)) for place in places)
        registers.append(CpuCall("matrix_cell", parts, "i32"))
    return registers


def register_steps(frame: CpuContractionFrame, depth: DepthBlock) -> AxisExpr:
    """How many rows of a matrix register a block of k takes."""
    return floordiv(_whole_rows(frame, depth), ROWS * cell_terms(frame.view), frame.writer.box)


def _whole_rows(frame: CpuContractionFrame, depth: DepthBlock) -> AxisExpr:
    """The terms of a block of k, rounded up to whole rows of a register."""
    row = ROWS * cell_terms(frame.view)
    return floordiv(depth.count.shift(row - 1), row, frame.writer.box) * row


def _zero(block: CpuBlock, buffer: str, base: AxisExpr, start: AxisExpr, stop: AxisExpr, dtype: str) -> None:
    """Zeroes elements [start, stop) after `base`."""
    writer = block.writer
    z = writer.variable("z", 0, max(0, interval(stop, writer.box)[1] - 1))
    body = block.inner({z})
    at = writer.axis(z)
    lanes_along(body, z, [stop - at], whole=False)
    body.store(buffer, base + at, Const(0, register_type(dtype)))
    block.loop(body, z, start, stop, writer.lanes)
