"""Panels of cells (`ir.kernel.cpu.cells`): the operands' terms in the order in which products of cells read them.

    rows      panel[row][k]               neighbouring terms of a row, in the narrow dtype or in cells
    columns   panel[k / terms][column]    neighbouring terms of a column in one cell of 32 bits

Both have zeros after the last term, up to a whole number of steps. Zeros in one operand alone would make NaN of an
infinity in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from codegen.lower.cpu.buffer_names import unused_name
from codegen.lower.cpu.builder import CpuBlock, loop_over
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock, lanes_along
from codegen.lower.cpu.lane_values import convert
from codegen.lower.cpu.pack import NarrowTerms, Panel, operand_value, over_vectors, pack
from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.cpu.cell_operands import CellOperands, cell_operands, has_terms_in_place, turns_rows
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, interval
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.cpu.matrix import ROWS
from ir.kernel.cpu.nodes import CpuCall, Load, Store, Transpose, Value
from ir.kernel.nodes import Const, register_type
from ir.plan.cpu import Algorithm


def packed_cells(view: Contraction, algorithm: Algorithm, side: int, width: int) -> tuple[str, int]:
    """The dtype of operand `side` in panels of `width` rows or columns, and the elements of a panel of all terms."""
    if side == view.vector:
        operands = cell_operands(view, algorithm)
        return "i32", width * operands.padded(view.depth) // operands.terms
    rows = packed_rows(view, algorithm, view.depth)
    return rows.dtype, rows.stride * width


class PackedRows(NamedTuple):
    """Rows in a panel: the dtype of its elements, the elements of a cell, and the elements of a row."""

    dtype: str
    cell: int
    stride: int


def packed_rows(view: Contraction, algorithm: Algorithm, depth: int) -> PackedRows:
    """Rows of `depth` terms in a panel: terms in their narrow dtype, or cells that are turned from columns of cells."""
    operands = cell_operands(view, algorithm)
    terms = operands.padded(depth)
    if turns_rows(view, algorithm):
        return PackedRows("i32", 1, terms // operands.terms)
    return PackedRows(operands.stored[1 - view.vector], operands.terms, terms)


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
    write = _turn_cells if turns_rows(frame.view, frame.blocks.algorithm) else _pack_terms
    write(frame, block, rows, depth)


def _pack_terms(frame: CpuContractionFrame, block: CpuBlock, rows: RowPanel, depth: DepthBlock) -> None:
    """Packs rows term by term, with lanes along k; a constant's lanes may run along the rows."""
    view, writer, operands = frame.view, frame.writer, operands_of(frame)
    side = 1 - view.vector
    narrow = NarrowTerms(operands.stored[side], operands.bias)
    panel = Panel(side, view.rows, rows.row, rows.count, view.m, rows.buffer, rows.base, 1, rows.stride, narrow)
    pack(frame, block, panel, depth)
    if operands.padded(view.depth) == view.depth:
        return
    r = writer.variable("r", 0, rows.count - 1)
    body = block.inner({r})
    base = rows.base + writer.axis(r) * rows.stride
    _zero(body, rows.buffer, base, depth.count, _whole_steps(frame, depth), narrow.dtype)
    block.loop(body, r, ZERO, constant(rows.count))


def _turn_cells(frame: CpuContractionFrame, block: CpuBlock, rows: RowPanel, depth: DepthBlock) -> None:
    """Packs rows with lanes along the rows, 16 rows at a time: numbers, cells of neighbouring terms, and squares of
    16 × 16 cells that are transposed."""
    view, writer, lanes, operands = frame.view, frame.writer, frame.lanes, operands_of(frame)
    side, frame = 1 - view.vector, replace(frame, aligned=frame.blocks.bm % ROWS == 0)
    r = writer.variable("r", 0, max(view.m - 1, 0))
    body = block.inner({r})
    first = writer.axis(r)
    numbers = _pack_numbers(frame, body, _Numbers(side, view.rows, first, ROWS, view.m), depth)
    square = writer.fresh("square")
    writer.private.append(Scratch(square, "i32", ROWS * ROWS))
    step = writer.variable("step", 0, operands.padded(depth.most) // operands.step - 1)
    turned = body.inner({step})
    at = writer.axis(step)
    for c in range(ROWS):
        cells = _cells(frame, turned, numbers, (at * ROWS).shift(c), ROWS)
        turned.add(Store(square, constant(c * ROWS), cells[0]))
    to = rows.base + (first - rows.row) * rows.stride + at * ROWS
    turned.add(Transpose(writer.buffer(rows.buffer), to, rows.stride, square, ZERO, lanes))
    body.loop(turned, step, ZERO, count_steps(frame, depth))
    block.loop(body, r, rows.row, rows.row.shift(rows.count), ROWS, view.m)


def pack_cells(
    frame: CpuContractionFrame, block: CpuBlock, column: AxisExpr, buffer: str, base: AxisExpr, depth: DepthBlock
) -> None:
    """Packs the panel of columns from `column` on: cells of terms where these lie, or first the terms as numbers, then
    cells of them."""
    view, writer, nr, lanes = frame.view, frame.writer, frame.blocks.nr, frame.lanes
    operands = operands_of(frame)
    if has_terms_in_place(view, frame.blocks.algorithm, lanes):
        first = floordiv(depth.first, operands.terms, writer.box) * nr
        pack_cells_side_by_side(frame, block, ColumnPanels(column, 1, buffer, base - first, 0), depth)
        return
    numbers = _pack_numbers(frame, block, _Numbers(view.vector, view.columns, column, nr, view.n), depth)
    cell = writer.variable("cell", 0, operands.padded(depth.most) // operands.terms - 1)
    body = block.inner({cell})
    at = writer.axis(cell)
    for j, cells in enumerate(_cells(frame, body, numbers, at, nr)):
        body.add(Store(writer.buffer(buffer), (base + at * nr).shift(j * lanes), cells))
    block.loop(body, cell, ZERO, floordiv(_whole_steps(frame, depth), operands.terms, writer.box))


@dataclass(frozen=True)
class ColumnPanels:
    """`count` panels of columns, the first from `column` on. Its cell of term 0 is at element `base` of a buffer; the
    next panels lie `apart` elements from each other."""

    column: AxisExpr
    count: int
    buffer: str
    base: AxisExpr
    apart: int


def pack_cells_side_by_side(
    frame: CpuContractionFrame, block: CpuBlock, panels: ColumnPanels, depth: DepthBlock
) -> None:
    """Packs panels cell by cell, from terms where these lie, so that reads pass through memory in its order."""
    writer, terms = frame.writer, operands_of(frame).terms
    k = writer.variable("k", 0, max(0, frame.view.depth - terms))
    body = block.inner({k})
    term = writer.axis(k)
    loop_over(body, "p", panels.count, lambda inner, number: _pack_cells_of(frame, inner, panels, number, term))
    block.loop(body, k, depth.start, depth.start.shift(depth.step), terms, depth.limit)


def _pack_cells_of(
    frame: CpuContractionFrame, block: CpuBlock, panels: ColumnPanels, number: AxisExpr, term: AxisExpr
) -> None:
    """Packs the cells of one panel that begin with `term`."""
    view, nr, terms = frame.view, frame.blocks.nr, operands_of(frame).terms
    (digit,) = view.k
    column = panels.column + number * nr
    base = panels.base + number * panels.apart + floordiv(term, terms, frame.writer.box) * nr

    def put(body: CpuBlock, x: AxisExpr) -> None:
        columns, parts = frame.along(view.columns, x), []
        for t in range(terms):
            placed = frame.with_digits({**columns, digit: term.shift(t)})
            parts.append(body.let("term", operand_value(placed, view.vector, body)))
        body.store(panels.buffer, base + (x - column), _cell_of(parts))

    over_vectors(frame, block, (column, nr), view.n, put)


class _Numbers(NamedTuple):
    """`width` rows or columns of operand `side` from `start` on, of the `size` along `group`."""

    side: int
    group: tuple[int, ...]
    start: AxisExpr
    width: int
    size: int


class _Packed(NamedTuple):
    """A scratch buffer of numbers, and their dtype."""

    buffer: str
    dtype: str


def _pack_numbers(frame: CpuContractionFrame, block: CpuBlock, numbers: _Numbers, depth: DepthBlock) -> _Packed:
    """The scratch buffer with an operand's numbers [k][width], and zeros after the last term."""
    view, writer, width, operands = frame.view, frame.writer, numbers.width, operands_of(frame)
    name, dtype = unused_name(f"numbers{numbers.side}", view.region), _dtype_of_numbers(frame, numbers.side)
    writer.private.append(Scratch(writer.buffer(name), dtype, operands.padded(depth.most) * width))
    side, group, start, _, size = numbers
    narrow = None if dtype == view.accumulator else NarrowTerms(dtype)
    pack(frame, block, Panel(side, group, start, width, size, name, ZERO, width, 1, narrow), depth)
    if operands.padded(view.depth) != view.depth:
        _zero(block, name, ZERO, depth.count * width, _whole_steps(frame, depth) * width, dtype)
    return _Packed(writer.buffer(name), dtype)


def _dtype_of_numbers(frame: CpuContractionFrame, side: int) -> str:
    """The dtype in which an operand's numbers wait for their cells: bytes stay bytes, a quarter of the memory, unless
    squares of them are transposed, which are of the dtype of sums."""
    view, dtype = frame.view, operands_of(frame).dtypes[side]
    group = view.columns if side == view.vector else view.rows
    in_squares = not group or lanes_along_k(view, side, group, frame.lanes)
    return view.accumulator if in_squares or not DTYPES[dtype].is_int else dtype


def _cells(frame: CpuContractionFrame, block: CpuBlock, numbers: _Packed, cell: AxisExpr, width: int) -> list[Value]:
    """Row `cell` of cells of a buffer of numbers, a register after another."""
    terms, lanes, accumulator = operands_of(frame).terms, frame.lanes, frame.view.accumulator
    registers: list[Value] = []
    for j in range(width // lanes):
        places = ((cell * (terms * width)).shift(t * width + j * lanes) for t in range(terms))
        loads = (Load(numbers.buffer, place, register_type(numbers.dtype)) for place in places)
        parts = tuple(block.let("term", convert(load, numbers.dtype, accumulator)) for load in loads)
        registers.append(_cell_of(parts))
    return registers


def _cell_of(terms: Sequence[Value]) -> Value:
    """A register of cells: two or four terms of each."""
    return CpuCall("pair" if len(terms) == 2 else "quad", tuple(terms), "i32")


def operands_of(frame: CpuContractionFrame) -> CellOperands:
    """The operands of the frame's contraction as cells."""
    return cell_operands(frame.view, frame.blocks.algorithm)


def count_steps(frame: CpuContractionFrame, depth: DepthBlock) -> AxisExpr:
    """How many steps a block of k takes."""
    step = operands_of(frame).step
    return floordiv(depth.count.shift(step - 1), step, frame.writer.box)


def _whole_steps(frame: CpuContractionFrame, depth: DepthBlock) -> AxisExpr:
    """The terms of a block of k, rounded up to whole steps."""
    return count_steps(frame, depth) * operands_of(frame).step


def _zero(block: CpuBlock, buffer: str, base: AxisExpr, start: AxisExpr, stop: AxisExpr, dtype: str) -> None:
    """Zeroes elements [start, stop) after `base`."""
    writer = block.writer
    z = writer.variable("z", 0, max(0, interval(stop, writer.box)[1] - 1))
    body = block.inner({z})
    at = writer.axis(z)
    lanes_along(body, z, [stop - at], whole=False)
    body.store(buffer, base + at, Const(0, register_type(dtype)))
    block.loop(body, z, start, stop, writer.lanes)
