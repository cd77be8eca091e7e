"""The register tile of matrix registers: MR × NR sums over one block of k, then stored in the accumulator.

sums of 2 × 2 registers    rows in two registers, columns in two: four products per row of terms
"""

from __future__ import annotations

from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.cell_panels import count_steps, operands_of
from codegen.lower.cpu.contraction_frame import CpuContractionFrame
from codegen.lower.cpu.register_tile import PrefetchShare, RegisterTile, Side, prefetch
from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.cell_operands import cell_operands, grid_of
from ir.index.expr import ZERO, AxisExpr, interval
from ir.kernel.cpu.matrix import REGISTERS, ROWS
from ir.kernel.cpu.nodes import CpuIf, MatrixLoad, MatrixMultiply, MatrixSetup, MatrixStore, MatrixZero
from ir.plan.cpu import CpuContractionPlan


def shape_registers(frame: CpuContractionFrame) -> MatrixSetup:
    """The shapes of all registers: those of sums and of rows have the tile's rows."""
    down, across, rows = grid_of(frame.blocks)
    return MatrixSetup(down * across + down, rows)


def matrix_tile(frame: CpuContractionFrame, block: CpuBlock, tile: RegisterTile, rows: Side, columns: Side) -> None:
    """Sums MR × NR products, and stores the sums in the accumulator."""
    view, writer, into = frame.view, frame.writer, tile.into
    down, across, height = grid_of(frame.blocks)
    grid = [(i, j) for i in range(down) for j in range(across)]
    places = {
        (i, j): (i * across + j, into.buffer, into.base.shift(i * height * into.stride + j * ROWS), into.stride, height)
        for i, j in grid
    }
    zeros = tuple(MatrixZero(number) for number, *_ in places.values())
    if tile.resumed is None:
        block.add(*zeros)
    else:
        block.add(CpuIf((tile.resumed,), tuple(MatrixLoad(*place) for place in places.values()), zeros))
    if view.depth:
        steps = count_steps(frame, tile.depth)
        k = writer.variable("k", 0, max(0, interval(steps, writer.box)[1] - 1))
        body = block.inner({k})
        prefetch(body, tile.prefetch, writer.axis(k))
        _add_products(frame, body, rows, columns, k)
        block.loop(body, k, ZERO, steps)
    block.add(*(MatrixStore(*place) for place in places.values()))


def share_of_panel(view: Contraction, plan: CpuContractionPlan, columns: Side, row: AxisExpr) -> PrefetchShare:
    """The part of the next panel that the tile at `row` of its block prefetches with every step: the tiles of a block
    share the panel evenly."""
    blocks = plan.blocks
    step = ROWS * blocks.nr
    per_row = -(-step // blocks.bm)
    operands = cell_operands(view, blocks.algorithm)
    panel = operands.padded(view.depth if plan.order == "knm" else blocks.bk) // operands.terms * blocks.nr
    return PrefetchShare(
        columns.buffer, columns.base.shift(panel) + row * per_row, step, -(-per_row * blocks.mr // ROWS), ROWS
    )


def _add_products(frame: CpuContractionFrame, block: CpuBlock, rows: Side, columns: Side, k: int) -> None:
    """The products of row `k` of the registers of terms."""
    view, at = frame.view, frame.writer.axis(k)
    down, across, height = grid_of(frame.blocks)
    dtypes = operands_of(frame).dtypes
    first_row, first_column = down * across, down * across + down
    for i in range(down):
        offset = (rows.base + at * (ROWS * rows.term)).shift(i * height * rows.element)
        block.add(MatrixLoad(first_row + i, rows.buffer, offset, rows.element, height))
    for j in range(across):
        column = first_column + j % (REGISTERS - first_column)
        offset = (columns.base + at * (ROWS * columns.term)).shift(j * ROWS)
        block.add(MatrixLoad(column, columns.buffer, offset, columns.term, ROWS))
        pair = (dtypes[1 - view.vector], dtypes[view.vector])
        block.add(*(MatrixMultiply(i * across + j, first_row + i, column, pair) for i in range(down)))
