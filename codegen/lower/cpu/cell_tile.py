"""The register tile of cells: MR × NR sums in vector registers over one block of k, then stored in the accumulator.

    c[i][j] += Σ_t row[i].cell[t] · column[j].cell[t]    columns are vectors, a row is one cell in all lanes

Where both operands of quads have the same sign, a bias was added to the rows. The tile sums the products of the bias
and the columns as a further row, and subtracts that row's sums from the others.
"""

from __future__ import annotations

from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.cell_panels import count_steps, operands_of
from codegen.lower.cpu.contraction_frame import CpuContractionFrame
from codegen.lower.cpu.register_tile import RegisterTile, Side, prefetch, resume_sums, start_sums, store_sums
from codegen.plan.cpu.cell_operands import CellOperands
from ir.index.expr import ZERO, interval
from ir.kernel.cpu.nodes import CpuCall, Load, Value
from ir.kernel.nodes import Const, Reg


def cell_tile(frame: CpuContractionFrame, block: CpuBlock, tile: RegisterTile, rows: Side, columns: Side) -> None:
    """Sums MR × NR products of cells, and stores the sums in the accumulator."""
    view, blocks, writer = frame.view, frame.blocks, frame.writer
    operands, vectors = operands_of(frame), range(blocks.nr // frame.lanes)
    sums = start_sums(frame, block, [(i, j) for i in range(blocks.mr) for j in vectors])
    biases = start_sums(frame, block, [(0, j) for j in vectors], "bias") if operands.bias else {}
    if view.depth:
        steps = count_steps(frame, tile.depth)
        k = writer.variable("k", 0, max(0, interval(steps, writer.box)[1] - 1))
        body = block.inner({k})
        at = writer.axis(k)
        prefetch(body, tile.prefetch, at)
        base = columns.base + at * columns.term
        vector = [body.let(f"b{j}", Load(columns.buffer, base.shift(j * frame.lanes), "i32")) for j in vectors]
        for i in range(blocks.mr):
            place = (rows.base + at * rows.term).shift(i * rows.element)
            row = body.let("a", Load(rows.buffer, place, "i32", "cell"))
            for j in vectors:
                _add_product(frame, body, sums[i, j], row, vector[j])
        for (_, j), bias in biases.items():
            _add_product(frame, body, bias, _cell_of(operands), vector[j])
        block.loop(body, k, ZERO, steps)
        for (_, j), register in sums.items():
            if biases:
                block.assign(register, CpuCall("sub", (register, biases[0, j]), register.dtype))
    resume_sums(frame, block, sums, tile)
    store_sums(frame, block, sums, tile.into)


def _add_product(frame: CpuContractionFrame, block: CpuBlock, total: Reg, row: Value, column: Value) -> None:
    """Adds the products of the terms of two cells. `dot_quads` takes the operand with unsigned terms first."""
    operands = operands_of(frame)
    signed_rows = operands.stored[1 - frame.view.vector] == "i8"
    args = (column, row, total) if signed_rows else (row, column, total)
    block.assign(total, CpuCall("dot_quads" if frame.blocks.algorithm == "quads" else "dot_pairs", args, total.dtype))


def _cell_of(operands: CellOperands) -> Const:
    """A cell whose terms are all the bias, in 8 bits."""
    return Const(int.from_bytes(bytes([operands.bias & 0xFF] * operands.terms), "little", signed=True), "i32")
