"""The places from which register tiles read operands as cells: panels, constants, memory."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.lower.cpu.buffer_names import packed_name
from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from codegen.lower.cpu.cell_panels import PackedRows, RowPanel, pack_cells, pack_rows, packed_cells, packed_rows
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock
from codegen.lower.cpu.contraction_places import ContractionPlaces
from codegen.lower.cpu.copy_box import PlacedBox
from codegen.lower.cpu.pack_panels import product_base
from codegen.lower.cpu.register_tile import Side
from codegen.plan.cpu.cell_operands import CellOperands, cell_operands, rows_in_memory
from ir.index.expr import ZERO, AxisExpr, floordiv
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.cpu.matrix import ROWS
from ir.kernel.nodes import Comment


@dataclass(frozen=True, eq=False)
class CellPlaces(ContractionPlaces):
    """The places of a plan that multiplies cells, and its scratch buffers."""

    def add_scratch(self, writer: CpuWriter) -> None:
        blocks, operands = self.blocks, self._operands
        buffers = [(self.sums, self.view.accumulator, blocks.mr * blocks.nr * self.kept_tiles)]
        if self.column_place == "packed":
            buffers.append((self.columns, "i32", operands.padded(blocks.bk) // operands.terms * blocks.nr))
        if self.row_place == "packed":
            buffers.append((self.rows, self._packed_rows.dtype, self._row_elements * self._row_blocks))
        writer.private += [Scratch(writer.buffer(name), dtype, size) for name, dtype, size in buffers]

    def copy_box(self, frame: CpuContractionFrame, block: CpuBlock, m0: AxisExpr) -> PlacedBox | None:
        return None

    def pack_rows(
        self, frame: CpuContractionFrame, block: CpuBlock, m0: AxisExpr, depth: DepthBlock, number: AxisExpr
    ) -> None:
        first, stride = self._row_base(number), self._packed_rows.stride
        pack_rows(frame, block, RowPanel(m0, self.blocks.bm, self.rows, first, stride), depth)

    def pack_columns(self, frame: CpuContractionFrame, block: CpuBlock, column: AxisExpr, depth: DepthBlock) -> None:
        block.add(Comment(f"pack a panel of {self.view.operand(self.view.vector).value}"))
        pack_cells(frame, block, column, self.columns, ZERO, depth)

    def column_side(self, frame: CpuContractionFrame, column: AxisExpr, depth: DepthBlock) -> Side:
        """The panel of the tile's columns: cells of terms."""
        view, nr = self.view, self.blocks.nr
        if self.column_place == "packed":
            return Side(frame.writer.buffer(self.columns), ZERO, nr, 1)
        _, panel = packed_cells(view, self.blocks.algorithm, view.vector, nr)
        base = product_base(frame, view.vector, panel, -(-view.n // nr)) + column * (panel // nr)
        base += floordiv(depth.first, self._operands.terms, frame.writer.box) * nr
        return Side(frame.writer.buffer(packed_name(view, view.vector)), base, nr, 1)

    def row_side(
        self, frame: CpuContractionFrame, m0: AxisExpr, row: AxisExpr, depth: DepthBlock, number: AxisExpr
    ) -> Side:
        """The tile's rows: their terms are neighbours. `Side.term` counts the elements of a cell."""
        view, mr = self.view, self.blocks.mr
        side = 1 - view.vector
        if self.row_place == "packed":
            _, cell, stride = self._packed_rows
            return Side(frame.writer.buffer(self.rows), self._row_base(number) + (row - m0) * stride, cell, stride)
        if self.row_place == "const_pool":
            _, cell, stride = packed_rows(view, self.blocks.algorithm, view.depth)
            base = product_base(frame, side, stride * mr, -(-view.m // mr)) + row * stride
            base += floordiv(depth.first, self._operands.terms, frame.writer.box) * cell
            return Side(frame.writer.buffer(packed_name(view, side)), base, cell, stride)
        in_memory = rows_in_memory(view, self.blocks)
        assert in_memory is not None
        read, stride = in_memory
        terms = {} if depth.axis is None else {depth.axis: depth.start, **dict.fromkeys(depth.inner, ZERO)}
        first = frame.with_digits({**frame.along(view.rows, row), **terms})
        base = first.place((view.offset(read),))[0]
        return Side(frame.writer.buffer(read.buffer), base, self._operands.terms, stride)

    @property
    def _operands(self) -> CellOperands:
        return cell_operands(self.view, self.blocks.algorithm)

    @property
    def _row_elements(self) -> int:
        return -(-self.blocks.bm // ROWS) * ROWS * self._packed_rows.stride

    @property
    def _packed_rows(self) -> PackedRows:
        """Packed rows: a cache line longer than their terms, since rows whose distance is a power of two use few sets
        of the cache."""
        rows = packed_rows(self.view, self.blocks.algorithm, self.blocks.bk)
        return rows._replace(stride=rows.stride + ROWS * rows.cell)
