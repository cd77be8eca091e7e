"""The places from which the register tiles of a contraction read its operands: panels, a box, memory, constants.

The template (`lower_contraction`) packs panels and copies the box by these functions. Register tiles read the sides
that the functions return.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from codegen.lower.cpu.buffer_names import packed_name, unused_name
from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock, depth_blocks
from codegen.lower.cpu.copy_box import PlacedBox, copy_box, place_box
from codegen.lower.cpu.finite_numbers import is_nan
from codegen.lower.cpu.pack import Panel, pack
from codegen.lower.cpu.pack_panels import flag_place, product_base
from codegen.lower.cpu.register_tile import Side
from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.cpu.contraction_tiling import kept_tiles
from codegen.plan.cpu.row_box import RowBox, row_box
from ir.index.expr import ZERO, AxisExpr
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.cpu.nodes import Load
from ir.kernel.nodes import Comment
from ir.plan.cpu import Blocks, CpuContractionPlan, Place


@dataclass(frozen=True, eq=False)
class ContractionPlaces:
    """The places of a plan's operands, and the scratch buffers for panels, the box and sums."""

    view: Contraction
    plan: CpuContractionPlan

    @property
    def blocks(self) -> Blocks:
        return self.plan.blocks

    @cached_property
    def sums(self) -> str:
        """The scratch buffer of sums."""
        return unused_name("sums", self.view.region)

    @cached_property
    def rows(self) -> str:
        """The scratch buffer of packed rows, or of the box."""
        return unused_name("rows", self.view.region)

    @cached_property
    def columns(self) -> str:
        """The scratch buffer of a panel of columns."""
        return unused_name("columns", self.view.region)

    @property
    def column_place(self) -> Place:
        """The place of the operand with the columns."""
        return self.plan.places[self.view.vector]

    @property
    def row_place(self) -> Place:
        """The place of the operand with the rows."""
        return self.plan.places[1 - self.view.vector]

    def add_scratch(self, writer: CpuWriter) -> None:
        """Adds the scratch buffers of a task to the kernel."""
        view, blocks = self.view, self.blocks
        sizes = {} if self.plan.held else {self.sums: blocks.mr * blocks.nr * self.kept_tiles}
        if self.column_place == "packed":
            sizes[self.columns] = blocks.bk * blocks.nr
        if self.row_place == "packed":
            sizes[self.rows] = self._row_elements * self._row_blocks + self.blocks.lanes
        elif self._box is not None:
            sizes[self.rows] = self._box.elements + self.blocks.lanes
        writer.private += [Scratch(writer.buffer(name), view.accumulator, size) for name, size in sizes.items()]

    def copy_box(self, frame: CpuContractionFrame, block: CpuBlock, m0: AxisExpr) -> PlacedBox | None:
        """Adds the copying of the box of the block of rows at `m0`, and returns the box; None where the plan reads rows
        elsewhere."""
        box = self._box
        if box is None:
            return None
        block.add(Comment(f"copy the box of {self.view.operand(1 - self.view.vector).value}"))
        placed = place_box(frame, box, self.rows, m0)
        copy_box(frame, block, placed)
        return placed

    @property
    def keeps_all_rows(self) -> bool:
        """Whether a task packs its rows for all blocks of k at once."""
        return self.row_place == "packed" and self.plan.order != "knm"

    def pack_rows(
        self, frame: CpuContractionFrame, block: CpuBlock, m0: AxisExpr, depth: DepthBlock, number: AxisExpr
    ) -> None:
        """Packs the rows of a task from `m0` on, and the terms of block `number` of k."""
        view, blocks = self.view, self.blocks
        side, first = 1 - view.vector, self._row_base(number)
        stride = self._rows_along_k
        if stride is not None:
            pack(frame, block, Panel(side, view.rows, m0, blocks.bm, view.m, self.rows, first, 1, stride), depth)
            return
        m = frame.writer.variable("m", 0, (-(-view.m // blocks.mr) - 1) * blocks.mr)
        body = block.inner({m})
        row = frame.writer.axis(m)
        base = first + (row - m0) * blocks.bk
        pack(frame, body, Panel(side, view.rows, row, blocks.mr, view.m, self.rows, base, blocks.mr, 1), depth)
        block.loop(body, m, m0, m0.shift(blocks.bm), blocks.mr, view.m)

    def pack_columns(self, frame: CpuContractionFrame, block: CpuBlock, column: AxisExpr, depth: DepthBlock) -> None:
        """Packs the panel of columns from `column` on."""
        view, nr = self.view, self.blocks.nr
        block.add(Comment(f"pack a panel of {view.operand(view.vector).value}"))
        pack(frame, block, Panel(view.vector, view.columns, column, nr, view.n, self.columns, ZERO, nr, 1), depth)

    def column_side(self, frame: CpuContractionFrame, column: AxisExpr, depth: DepthBlock) -> Side | None:
        """The panel of the tile's columns; None where columns are in memory."""
        view, nr = self.view, self.blocks.nr
        where = self.column_place
        if where == "packed":
            return Side(frame.writer.buffer(self.columns), ZERO, nr, 1)
        if where in ("memory", "const_parts"):
            return None
        base = (
            product_base(frame, view.vector, nr * view.depth, -(-view.n // nr)) + column * view.depth + depth.first * nr
        )
        return Side(frame.writer.buffer(packed_name(view, view.vector)), base, nr, 1)

    def infinite(self, frame: CpuContractionFrame, block: CpuBlock, column: AxisExpr) -> AxisExpr:
        """1 where the constant panel of the tile's columns has a number that is not finite; else 0."""
        view = self.view
        buffer, at = frame.writer.buffer(packed_name(view, view.vector)), flag_place(frame, column)
        return is_nan(block, block.let("flag", Load(buffer, at, view.accumulator, "splat")))

    def row_side(
        self, frame: CpuContractionFrame, m0: AxisExpr, row: AxisExpr, depth: DepthBlock, number: AxisExpr
    ) -> Side | None:
        """The panel of the tile's rows, for block `number` of k; None where rows are in memory."""
        view, blocks = self.view, self.blocks
        side, inside = 1 - view.vector, row - m0
        where = self.row_place
        if where == "packed":
            stride, name, first = self._rows_along_k, frame.writer.buffer(self.rows), self._row_base(number)
            if stride:
                return Side(name, first + inside * stride, 1, stride)
            return Side(name, first + inside * blocks.bk, blocks.mr, 1)
        if where != "const_pool":
            return None
        mr = blocks.mr
        base = product_base(frame, side, mr * view.depth, -(-view.m // mr)) + row * view.depth + depth.first * mr
        return Side(frame.writer.buffer(packed_name(view, side)), base, mr, 1)

    @cached_property
    def _box(self) -> RowBox | None:
        """The box in which the plan reads rows, if so."""
        return row_box(self.view, self.blocks.bm) if self.row_place == "box" else None

    @property
    def kept_tiles(self) -> int:
        """Tiles whose sums lie in the workspace at the same time."""
        return kept_tiles(self.blocks, self.plan.order) if depth_blocks(self.view, self.blocks) > 1 else 1

    @property
    def _row_blocks(self) -> int:
        """Blocks of k whose packed rows lie in the workspace at the same time."""
        return depth_blocks(self.view, self.blocks) if self.keeps_all_rows else 1

    @property
    def _row_elements(self) -> int:
        """Elements of the packed rows of a task, for one block of k."""
        return self.blocks.bm * (self._rows_along_k or self.blocks.bk)

    def _row_base(self, number: AxisExpr) -> AxisExpr:
        """The element at which the packed rows of block `number` of k begin."""
        return number * self._row_elements if self.keeps_all_rows else ZERO

    @property
    def _rows_along_k(self) -> int | None:
        """The stride between rows where the terms of a packed row are contiguous; None for column panels."""
        view = self.view
        if not view.rows or not lanes_along_k(view, 1 - view.vector, view.rows, self.blocks.lanes):
            return None
        return self.blocks.bk + self.blocks.lanes
