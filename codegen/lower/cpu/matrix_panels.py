"""Panels for matrix registers: the operands' elements in the order in which `ir.kernel.cpu.matrix` reads them.

    terms   panel[row][k]                 neighbouring terms of a row, in the narrow dtype
    cells   panel[k / terms][column]      neighbouring terms of a column in one cell of 32 bits

Both have zeros after the last term, up to whole rows of a register: a zero of one operand would make NaN of an infinity
in the other.
"""

from __future__ import annotations

from codegen.lower.cpu.buffer_names import unused_name
from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock, lanes_along
from codegen.lower.cpu.pack import Panel, pack
from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.matrix_operands import cell_terms, matrix_dtypes, padded_depth
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, interval
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.cpu.matrix import ROWS
from ir.kernel.cpu.nodes import CpuCall, Load, Store
from ir.kernel.nodes import Const, register_type


def packed_matrix(view: Contraction, side: int, width: int) -> tuple[str, int]:
    """The dtype of operand `side` in panels of `width` rows or columns, and the elements of a panel of all terms."""
    dtypes = matrix_dtypes(view)
    assert dtypes is not None
    depth = padded_depth(view, view.depth)
    return ("i32", width * depth // cell_terms(view)) if side == view.vector else (dtypes[side], width * depth)


def pack_terms(
    frame: CpuContractionFrame,
    block: CpuBlock,
    row: AxisExpr,
    count: int,
    buffer: str,
    base: AxisExpr,
    stride: int,
    depth: DepthBlock,
) -> None:
    """Packs `count` rows from `row` on, `stride` elements apart, from element `base` of `buffer` on."""
    view, writer = frame.view, frame.writer
    side = 1 - view.vector
    dtypes = matrix_dtypes(view)
    assert dtypes is not None
    panel = Panel(side, view.rows, row, count, view.m, buffer, base, 1, stride, dtypes[side])
    pack(frame, block, panel, depth)
    if padded_depth(view, view.depth) == view.depth:
        return
    r = writer.variable("r", 0, count - 1)
    body = block.inner({r})
    _zero(body, buffer, base + writer.axis(r) * stride, depth.count, _whole_rows(frame, depth), dtypes[side])
    block.loop(body, r, ZERO, constant(count))


def pack_cells(
    frame: CpuContractionFrame, block: CpuBlock, column: AxisExpr, buffer: str, base: AxisExpr, depth: DepthBlock
) -> None:
    """Packs the panel of columns from `column` on: first the terms as numbers, then cells of them."""
    view, writer, nr, lanes = frame.view, frame.writer, frame.blocks.nr, frame.lanes
    terms, accumulator = cell_terms(view), view.accumulator
    numbers = unused_name("numbers", view.region)
    source, cells = writer.buffer(numbers), writer.buffer(buffer)
    writer.private.append(Scratch(source, accumulator, padded_depth(view, depth.most) * nr))
    pack(frame, block, Panel(view.vector, view.columns, column, nr, view.n, numbers, ZERO, nr, 1), depth)
    whole = _whole_rows(frame, depth)
    if padded_depth(view, view.depth) != view.depth:
        _zero(block, numbers, ZERO, depth.count * nr, whole * nr, accumulator)
    cell = writer.variable("cell", 0, padded_depth(view, depth.most) // terms - 1)
    body = block.inner({cell})
    at = writer.axis(cell)
    for j in range(nr // lanes):
        places = ((at * (terms * nr)).shift(t * nr + j * lanes) for t in range(terms))
        parts = tuple(body.let("term", Load(source, place, accumulator)) for place in places)
        body.add(Store(cells, (base + at * nr).shift(j * lanes), CpuCall("matrix_cell", parts, "i32")))
    block.loop(body, cell, ZERO, floordiv(whole, terms, writer.box))


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
