"""A contraction and its plan → a CPU kernel: the template of matrix products and convolutions.

    for each panel of columns: pack the panel             in parallel, where the plan packs columns once
    for each task (batch, block of rows, block of columns):                  in parallel
      copy the box of the rows                            where the plan reads rows in a box
      pack the rows of all blocks of k                    where the plan packs rows, and blocks of k are inside
      for each block of k:                                these three loops in the plan's order
        pack the rows                                     where the plan packs rows, and blocks of k are outermost
        for each panel of columns:
          pack the panel                                  where the plan packs columns in each task
          for each tile of rows:
            MR × NR sums in registers                     register_tile; it prefetches the next panel
            after the last block of k: the epilogue       on the sums, vector by vector, and the store

One task sums an output element, in an order that does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from codegen.lower.cpu.builder import CpuBlock, CpuWriter, loop_over, with_guard
from codegen.lower.cpu.cell_places import CellPlaces
from codegen.lower.cpu.cell_tile import cell_tile
from codegen.lower.cpu.contraction_epilogue import epilogue, held_epilogue
from codegen.lower.cpu.contraction_frame import (
    CpuContractionFrame,
    DepthBlock,
    bound,
    depth_block,
    depth_blocks,
)
from codegen.lower.cpu.contraction_places import ContractionPlaces
from codegen.lower.cpu.copy_box import PlacedBox
from codegen.lower.cpu.matrix_tile import matrix_tile, shape_registers, share_of_panel
from codegen.lower.cpu.pack_constant import pack_constant
from codegen.lower.cpu.pack_panels import operand_panels, pack_panels
from codegen.lower.cpu.part_panels import pack_parts
from codegen.lower.cpu.read_terms import ReadTerms, read_terms
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.lower.cpu.register_tile import PrefetchShare, RegisterTile, Side, TileSums, dot_tile, outer_tile
from codegen.lower.cpu.tasks import task_phase
from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.cell_operands import CELL_ALGORITHMS, cell_operands
from codegen.plan.cpu.unread_terms import unread_digits
from codegen.plan.region_loops import RegionLoops
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, mod
from ir.kernel.cpu.kernel import CpuParam, Phase, Scratch
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel, PackedConstant
from ir.kernel.cpu.nodes import MatrixEnd
from ir.kernel.nodes import Comment, Within
from ir.plan.cpu import PACKED_AT_BUILD, CpuContractionPlan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.target import CACHE_LINE_BYTES


def lower_contraction(view: Contraction, plan: CpuContractionPlan, name: str = "eq_k") -> LoweredCpuKernel:
    """The kernel `name` that runs a contraction by a plan that fits."""
    unread = unread_digits(view, plan.blocks, plan.places)
    constants = tuple(
        pack_constant(view, plan.blocks, side, f"{name}_pack{side}", flagged=bool(unread) and side == view.vector)
        for side, operand in enumerate(plan.operands)
        if operand.place == "const_pool"
    )
    if plan.places[view.vector] == "const_parts":
        constants += pack_parts(view, plan.blocks, f"{name}_pack{view.vector}")
    return _CpuContractionTemplate(view, plan).kernel(name, constants)


@dataclass(frozen=True)
class _LoopPosition:
    """The place that the loops of a task have reached: the task's first row and column and its box of rows; the block
    of k and its number; the panel of columns and the tile of rows."""

    m0: AxisExpr
    n0: AxisExpr
    box: PlacedBox | None
    depth: DepthBlock | None = None
    number: AxisExpr = ZERO
    column: AxisExpr | None = None
    row: AxisExpr | None = None


_Inner = Callable[[CpuContractionFrame, CpuBlock, _LoopPosition], None]
"""Writes the body of a loop."""


class _CpuContractionTemplate:
    """The template for one plan."""

    def __init__(self, view: Contraction, plan: CpuContractionPlan) -> None:
        self.view, self.plan, self.blocks, self.lanes = view, plan, plan.blocks, plan.blocks.lanes
        self.by_matrix = plan.blocks.algorithm == "matrix"
        self.by_cells = plan.blocks.algorithm in CELL_ALGORITHMS
        self.places = CellPlaces(view, plan) if self.by_cells else ContractionPlaces(view, plan)

    def kernel(self, name: str, constants: tuple[PackedConstant, ...]) -> LoweredCpuKernel:
        view, region = self.view, self.view.region
        writer = CpuWriter(self.lanes)
        dropped = {source for buffer in constants for source in buffer.sources} - self._still_read()
        inputs = [writer.param(buffer, written=False) for buffer in region.inputs if buffer.name not in dropped]
        packed = [CpuParam(writer.buffer(buffer.name), buffer.dtype, buffer.elements) for buffer in constants]
        outputs = [writer.param(output, written=True) for output in region.outputs]
        evaluator = RegionEvaluator(RegionLoops(region, view.core), writer)
        empty = not (view.repeats and view.m and view.n)
        frame = CpuContractionFrame(view, self.blocks, writer, evaluator, {})
        phases = () if empty else (*self._packing(frame), self._tasks(frame))
        kernel = writer.kernel(name, (*inputs, *packed, *outputs), phases, self._comment())
        kept = [buffer.name for buffer in region.inputs if buffer.name not in dropped]
        args = (*kept, *(buffer.name for buffer in constants), *(output.name for output in region.outputs))
        return LoweredCpuKernel(kernel, args, constants)

    def _packing(self, frame: CpuContractionFrame) -> tuple[Phase, ...]:
        """The phase that packs all columns, if the plan packs these once."""
        if self.places.column_place != "packed_once":
            return ()
        panels = operand_panels(self.view, self.blocks, self.view.vector)
        frame.writer.shared.append(Scratch(frame.writer.buffer(panels.name), panels.dtype, panels.elements))
        return () if panels.is_empty else (pack_panels(frame, panels),)

    # --- the loop nest ---

    def _tasks(self, frame: CpuContractionFrame) -> Phase:
        self.places.add_scratch(frame.writer)
        loops = {"batch": self.view.repeats, "m.o": self._row_blocks, "n.o": self._column_blocks}
        return task_phase(frame.writer, self.plan.parallel, loops, lambda block, *at: self._task(frame, block, *at))

    def _task(
        self, frame: CpuContractionFrame, block: CpuBlock, repeat: AxisExpr, row_block: AxisExpr, column_block: AxisExpr
    ) -> None:
        view, blocks, box = self.view, self.blocks, frame.writer.box
        n0 = bound(block, "n0", column_block * blocks.bn, (self._column_blocks - 1) * blocks.bn)
        m0 = bound(block, "m0", row_block * blocks.bm, (self._row_blocks - 1) * blocks.bm)
        batch, outer = view.extent(view.batch), view.extent(view.outer)
        o = bound(block, "o", mod(repeat, outer, box), outer - 1)
        b = bound(block, "b", floordiv(repeat, outer, frame.writer.box), batch - 1)
        frame = frame.with_digits({**frame.along(view.outer, o), **frame.along(view.batch, b)})
        at = _LoopPosition(m0, n0, self.places.copy_box(frame, block, m0))
        if self.by_matrix:
            block.add(shape_registers(frame))
        if self.places.keeps_all_rows:
            self._over_depth(frame, block, at, self._pack_rows)
        self._loops(frame, block, at, self.plan.order)
        if self.by_matrix:
            block.add(MatrixEnd())

    def _loops(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition, left: str) -> None:
        """Writes the loops `left`, outermost first, and the register tile in the innermost one."""
        if not left:
            self._tile(frame, block, at)
            return
        inner = partial(self._loops, left=left[1:])
        match left[0]:
            case "k":
                self._over_depth(frame, block, at, partial(self._at_depth, inner=inner))
            case "n":
                self._over_columns(frame, block, at, inner)
            case "m":
                self._over_rows(frame, block, at, inner)

    def _over_depth(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition, inner: _Inner) -> None:
        """The loop over blocks of k."""

        def write(body: CpuBlock, number: AxisExpr) -> None:
            within, depth = depth_block(frame, body, number)
            inner(within, body, replace(at, number=number, depth=depth))

        loop_over(block, "kb", depth_blocks(self.view, self.blocks), write)

    def _at_depth(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition, inner: _Inner) -> None:
        """A block of k: packs what tiles read, once the rows or columns are known."""
        if self.places.row_place == "packed" and not self.places.keeps_all_rows:
            self._pack_rows(frame, block, at)
        self._pack_columns(frame, block, at)
        inner(frame, block, at)

    def _pack_rows(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition) -> None:
        """Packs the rows of the task, for one block of k."""
        assert at.depth is not None
        block.add(Comment(f"pack the rows of {self.view.operand(1 - self.view.vector).value}"))
        self.places.pack_rows(frame, block, at.m0, at.depth, at.number)

    def _over_columns(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition, inner: _Inner) -> None:
        """The loop over panels of columns."""
        view, blocks = self.view, self.blocks
        n = frame.writer.variable("n", 0, (-(-view.n // blocks.nr) - 1) * blocks.nr)
        body = block.inner({n})
        at = replace(at, column=frame.writer.axis(n))
        self._pack_columns(frame, body, at)
        inner(frame, body, at)
        block.loop(body, n, at.n0, at.n0.shift(blocks.bn), blocks.nr, view.n)

    def _over_rows(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition, inner: _Inner) -> None:
        """The loop over tiles of rows."""
        view, blocks = self.view, self.blocks
        m = frame.writer.variable("m", 0, (-(-view.m // blocks.mr) - 1) * blocks.mr)
        body = block.inner({m})
        inner(frame, body, replace(at, row=frame.writer.axis(m)))
        block.loop(body, m, at.m0, at.m0.shift(blocks.bm), blocks.mr, view.m)

    def _pack_columns(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition) -> None:
        """Packs a panel of columns, once its columns and terms are known."""
        if self.places.column_place == "packed" and at.depth is not None and at.column is not None:
            self.places.pack_columns(frame, block, at.column, at.depth)

    def _tile(self, frame: CpuContractionFrame, block: CpuBlock, at: _LoopPosition) -> None:
        """Writes one register tile, and the epilogue where its sums are complete."""
        blocks, depth, row, column = self.blocks, at.depth, at.row, at.column
        assert depth is not None
        assert row is not None
        assert column is not None
        last = depth_blocks(self.view, blocks) - 1
        columns = self.places.column_side(frame, column, depth)
        tile = RegisterTile(
            depth,
            row,
            column,
            TileSums(frame.writer.buffer(self.places.sums), self._offset_of_sums(at) if last else ZERO, blocks.nr),
            resumed=Within(at.number, 1, last + 1) if last else None,
            prefetch=self._prefetch_share(columns, depth, row - at.m0) if columns and self.plan.prefetch else None,
        )
        block.add(Comment(f"{blocks.mr} x {blocks.nr} sums in registers"))
        if blocks.algorithm == "dot":
            self._dot(frame, block, tile)
        elif self.by_cells:
            side = self.places.row_side(frame, at.m0, row, depth, at.number)
            assert side is not None
            assert columns is not None
            write = matrix_tile if self.by_matrix else cell_tile
            write(frame, block, tile, side, columns)
        else:
            rows = at.box or self.places.row_side(frame, at.m0, row, depth, at.number)
            sums = outer_tile(
                frame,
                block,
                tile,
                rows,
                columns,
                store=not self.plan.held,
                read=self._read(frame, block, row, column),
                parts=self.places.column_place == "const_parts",
            )
            if self.plan.held:
                held_epilogue(frame, block, self.plan.epilogue, row, column, sums)
                return
        with_guard(
            block,
            [Within(at.number, last, last + 1)] if last else [],
            lambda finish: epilogue(frame, finish, self.plan.epilogue, row, column, tile.into),
        )

    def _read(self, frame: CpuContractionFrame, block: CpuBlock, row: AxisExpr, column: AxisExpr) -> ReadTerms | None:
        """The terms that the tile takes; None: all."""
        windows = unread_digits(self.view, self.blocks, self.plan.places)
        return read_terms(frame, block, windows, row, self.places.infinite(frame, block, column)) if windows else None

    def _offset_of_sums(self, at: _LoopPosition) -> AxisExpr:
        """The first sum of a tile, where sums are kept between blocks of k: every tile that the loops inside the loop
        over blocks of k pass has memory of its own."""
        assert at.row is not None
        assert at.column is not None
        row, column = (at.row - at.m0) * self.blocks.nr, (at.column - at.n0) * self.blocks.bm
        return {"knm": column + row, "nkm": row, "mnk": ZERO}[self.plan.order]

    def _prefetch_share(self, columns: Side, depth: DepthBlock, row: AxisExpr) -> PrefetchShare:
        """The part of the next panel that the tile at `row` of its block prefetches: the tiles of a block share the
        panel evenly. If there are fewer tiles than cache lines per term, each tile prefetches the whole panel."""
        blocks, item = self.blocks, DTYPES[self.view.accumulator].bytes
        tiles, cache_line = -(-blocks.bm // blocks.mr), CACHE_LINE_BYTES // item
        if self.by_matrix:
            return share_of_panel(self.view, self.plan, columns, row)
        terms = cell_operands(self.view, blocks.algorithm).terms if self.by_cells else 1
        total, most = -(-self.view.depth // terms), -(-depth.most // terms)
        next_panel = total * blocks.nr if self.plan.order == "knm" else most * blocks.nr
        base, lines = columns.base.shift(next_panel), -(-blocks.nr // cache_line)
        if tiles < lines:
            return PrefetchShare(columns.buffer, base, blocks.nr, lines, cache_line)
        term = -(-blocks.nr // tiles)
        return PrefetchShare(columns.buffer, base + row * -(-most * term // blocks.mr), term, 1, cache_line)

    def _dot(self, frame: CpuContractionFrame, block: CpuBlock, tile: RegisterTile) -> None:
        """Writes a whole tile of dot products, or one column at a time where the last tile is cut."""
        view, nr, column = self.view, self.blocks.nr, tile.column
        run, _ = view.run(view.vector, view.k)
        whole = view.n // nr * nr
        if whole == view.n:
            dot_tile(frame, block, tile, run, nr)
            return
        full, cut = Within(column, 0, whole), block.inner(barrier=True)
        if whole:
            body = block.inner(barrier=True)
            dot_tile(frame, body, tile, run, nr)
            block.guard(body, (full,))
        j = frame.writer.variable("j", whole, view.n - 1)
        single = cut.inner({j})
        at = frame.writer.axis(j)
        one = TileSums(tile.into.buffer, tile.into.base + at.shift(-whole), nr)
        dot_tile(frame, single, RegisterTile(tile.depth, tile.row, at, one), run, 1)
        cut.loop(single, j, constant(whole), constant(view.n))
        if whole:
            block.guard(cut, (Within(column, whole, view.n),))
        else:
            block.add(*cut.statements)

    # --- sizes, comment, buffers ---

    @property
    def _row_blocks(self) -> int:
        return -(-self.view.m // self.blocks.bm)

    @property
    def _column_blocks(self) -> int:
        return -(-self.view.n // self.blocks.bn)

    def _comment(self) -> str:
        view, blocks = self.view, self.blocks
        sides = [view.operand(side).value for side in (1 - view.vector, view.vector)]
        return "\n".join(
            [
                f"{view.region.name}: {view.repeats} products of {view.m} x {view.depth} ({sides[0]})"
                f" and {view.depth} x {view.n} ({sides[1]})",
                f"tile {blocks.mr} x {blocks.nr}, blocks {blocks.bm} x {blocks.bn} x {blocks.bk},"
                f" {blocks.algorithm}, cache "
                + (", ".join(str(entry) for entry in plan_to_schedule(self.plan).cache) or "none"),
                f"epilogue {', '.join(self.plan.epilogue) or 'none'}, tails {', '.join(self.plan.tails) or 'none'}",
            ]
        )

    def _still_read(self) -> set[str]:
        """Buffers that are read other than through a packed operand."""
        view = self.view
        packed = {view.operand(side).value for side in (0, 1) if self.plan.places[side] in PACKED_AT_BUILD}
        pending = [result.value for result in view.region.yields]
        bodies = {let.name: let.op for let in view.region.body}
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in bodies:
                pending += [read for read in bodies[name].reads if name != view.name or read not in packed]
        return seen
