"""A contraction and its plan → a CPU kernel: the template of matrix products and convolutions.

    for each task (batch, block of rows, block of columns):                  in parallel
      for each block of k:
        pack the broadcast side's rows                    once per block      (packed when built, if constant)
        for each panel of columns:
          pack the panel                                  into the first-level cache
          for each tile of rows:
            MR × NR sums in registers                     register_tile
            after the last block of k: the epilogue       on the sums, vector by vector, and the store

One task sums an output element, in an order that does not depend on the number of threads.
"""

from __future__ import annotations

from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from codegen.lower.cpu.contraction_epilogue import epilogue
from codegen.lower.cpu.contraction_frame import (
    CpuContractionFrame,
    DepthBlock,
    bound,
    depth_block,
    depth_blocks,
)
from codegen.lower.cpu.pack import Panel, pack
from codegen.lower.cpu.pack_constant import (
    pack_constant,
    packed_name,
    product_base,
    unused_name,
)
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.lower.cpu.register_tile import RegisterTile, Side, TileSums, dot_tile, outer_tile
from codegen.lower.cpu.tasks import task_phase
from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.region_loops import RegionLoops
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, mod
from ir.kernel.cpu.kernel import CpuParam, Phase, Scratch
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel, PackedConstant
from ir.kernel.nodes import Comment, Within
from ir.plan.cpu import CpuContractionPlan
from ir.plan.plan_to_schedule import plan_to_schedule


def lower_contraction(view: Contraction, plan: CpuContractionPlan, name: str = "eq_k") -> LoweredCpuKernel:
    """The kernel `name` that runs a contraction by a plan that fits."""
    constants = tuple(
        pack_constant(view, plan.blocks, side, f"{name}_pack{side}")
        for side, operand in enumerate(plan.operands)
        if operand.place == "const_pool"
    )
    return _CpuContractionTemplate(view, plan).kernel(name, constants)


class _CpuContractionTemplate:
    """The template for one plan. `sums`, `rows`, `columns` are the names of its scratch buffers."""

    def __init__(self, view: Contraction, plan: CpuContractionPlan) -> None:
        self.view, self.plan, self.blocks, self.lanes = view, plan, plan.blocks, plan.blocks.lanes
        self.sums, self.rows, self.columns = (unused_name(name, view.region) for name in ("sums", "rows", "columns"))

    def kernel(self, name: str, constants: tuple[PackedConstant, ...]) -> LoweredCpuKernel:
        view, region = self.view, self.view.region
        writer = CpuWriter(self.lanes)
        dropped = {source for buffer in constants for source in buffer.sources} - self._still_read()
        inputs = [writer.param(buffer, written=False) for buffer in region.inputs if buffer.name not in dropped]
        packed = [CpuParam(writer.buffer(buffer.name), buffer.dtype, buffer.elements) for buffer in constants]
        outputs = [writer.param(output, written=True) for output in region.outputs]
        evaluator = RegionEvaluator(RegionLoops(region, view.core), writer)
        empty = not (view.repeats and view.m and view.n)
        phases = () if empty else (self._tasks(CpuContractionFrame(view, self.blocks, writer, evaluator, {})),)
        kernel = writer.kernel(name, (*inputs, *packed, *outputs), phases, self._comment())
        kept = [buffer.name for buffer in region.inputs if buffer.name not in dropped]
        args = (*kept, *(buffer.name for buffer in constants), *(output.name for output in region.outputs))
        return LoweredCpuKernel(kernel, args, constants)

    # --- the loop nest ---

    def _tasks(self, frame: CpuContractionFrame) -> Phase:
        self._scratch(frame.writer)
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
        count = depth_blocks(view, blocks)
        number = frame.writer.variable("kb", 0, count - 1)
        if count == 1:
            self._depth(frame, block, constant(0), m0, n0)
            return
        body = block.inner({number})
        self._depth(frame, body, frame.writer.axis(number), m0, n0)
        block.loop(body, number, ZERO, constant(count))

    def _depth(self, frame: CpuContractionFrame, block: CpuBlock, number: AxisExpr, m0: AxisExpr, n0: AxisExpr) -> None:
        """Writes one block of k: packs the rows, then goes through the columns panel by panel."""
        view, blocks = self.view, self.blocks
        frame, depth = depth_block(frame, block, number)
        row_panel = self._row_panel(frame, m0, depth)
        if self._place(1 - view.vector) == "packed":
            block.add(Comment(f"pack the rows of {view.operand(1 - view.vector).value}"))
            self._pack_rows(frame, block, m0, depth)
        n = frame.writer.variable("n", 0, (-(-view.n // blocks.nr) - 1) * blocks.nr)
        panel = block.inner({n})
        column = frame.writer.axis(n)
        if self._place(view.vector) == "packed":
            panel.add(Comment(f"pack a panel of {view.operand(view.vector).value}"))
            pack(frame, panel, self._column_panel(column), depth)
        m = frame.writer.variable("m", 0, (-(-view.m // blocks.mr) - 1) * blocks.mr)
        tile = panel.inner({m})
        row = frame.writer.axis(m)
        tall, wide = self._tile_block
        into = TileSums(
            frame.writer.buffer(self.sums),
            (column - n0) * tall + (row - m0) * blocks.nr if wide else ZERO,
            blocks.nr,
        )
        last = depth_blocks(view, blocks) - 1
        resumed = Within(number, 1, last + 1) if last else None
        done = Within(number, last, last + 1) if last else None
        self._tile(frame, tile, RegisterTile(depth, row, column, into, resumed), self._at_row(row_panel, row, m0), done)
        panel.loop(tile, m, m0, m0.shift(blocks.bm), blocks.mr, view.m)
        block.loop(panel, n, n0, n0.shift(blocks.bn), blocks.nr, view.n)

    def _tile(
        self, frame: CpuContractionFrame, block: CpuBlock, tile: RegisterTile, rows: Side | None, done: Within | None
    ) -> None:
        """Writes one register tile, and the epilogue under the condition `done` that its sums are complete (None:
        always)."""
        blocks = self.blocks
        block.add(Comment(f"{blocks.mr} x {blocks.nr} sums in registers"))
        if blocks.dot:
            self._dot(frame, block, tile)
        else:
            outer_tile(frame, block, tile, rows, self._column_side(frame, tile.column, tile.depth))
        if done is None:
            epilogue(frame, block, self.plan.epilogue, tile.row, tile.column, tile.into)
            return
        finish = block.inner(barrier=True, facts=(done,))
        epilogue(frame, finish, self.plan.epilogue, tile.row, tile.column, tile.into)
        block.guard(finish, (done,))

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
        block.guard(cut, (Within(column, whole, view.n),)) if whole else block.statements.extend(cut.statements)

    # --- panels ---

    @property
    def _row_blocks(self) -> int:
        return -(-self.view.m // self.blocks.bm)

    @property
    def _column_blocks(self) -> int:
        return -(-self.view.n // self.blocks.bn)

    @property
    def _tile_block(self) -> tuple[int, bool]:
        """Rows of a task, and whether sums are kept between blocks of k, so that every tile needs its own memory."""
        return self.blocks.bm, depth_blocks(self.view, self.blocks) > 1

    def _place(self, side: int) -> str:
        return self.plan.operands[side].place

    @property
    def _rows_along_k(self) -> int | None:
        """The stride between rows where the terms of a packed row are contiguous; None for column panels."""
        view = self.view
        if not view.rows or not lanes_along_k(view, 1 - view.vector, view.rows, self.lanes):
            return None
        return self.blocks.bk + self.lanes

    def _scratch(self, writer: CpuWriter) -> None:
        view, blocks = self.view, self.blocks
        _, many = self._tile_block
        sizes = {self.sums: blocks.bm * blocks.bn if many else blocks.mr * blocks.nr}
        if self._place(view.vector) == "packed":
            sizes[self.columns] = blocks.bk * blocks.nr
        if self._place(1 - view.vector) == "packed":
            sizes[self.rows] = blocks.bm * (self._rows_along_k or blocks.bk) + self.lanes
        writer.private += [Scratch(writer.buffer(name), view.accumulator, size) for name, size in sizes.items()]

    def _column_panel(self, column: AxisExpr) -> Panel:
        view, nr = self.view, self.blocks.nr
        return Panel(view.vector, view.columns, column, nr, view.n, self.columns, ZERO, nr, 1)

    def _column_side(self, frame: CpuContractionFrame, column: AxisExpr, depth: DepthBlock) -> Side | None:
        view, nr = self.view, self.blocks.nr
        where = self._place(view.vector)
        if where == "packed":
            return Side(frame.writer.buffer(self.columns), ZERO, nr, 1)
        if where == "memory":
            return None
        base = product_base(frame, view.vector, nr, view.n) + column * view.depth + depth.first * nr
        return Side(frame.writer.buffer(packed_name(view, view.vector)), base, nr, 1)

    def _row_panel(self, frame: CpuContractionFrame, m0: AxisExpr, depth: DepthBlock) -> Side | None:
        """The side of the first tile of rows of the task."""
        view, mr = self.view, self.blocks.mr
        side = 1 - view.vector
        where = self._place(side)
        if where == "packed":
            stride, name = self._rows_along_k, frame.writer.buffer(self.rows)
            return Side(name, ZERO, 1, stride) if stride else Side(name, ZERO, mr, 1)
        if where == "memory":
            return None
        base = product_base(frame, side, mr, view.m) + m0 * view.depth + depth.first * mr
        return Side(frame.writer.buffer(packed_name(view, side)), base, mr, 1)

    def _at_row(self, rows: Side | None, row: AxisExpr, m0: AxisExpr) -> Side | None:
        if rows is None:
            return None
        packed = self._place(1 - self.view.vector) == "packed"
        stride = (self._rows_along_k or self.blocks.bk) if packed else self.view.depth
        return Side(rows.buffer, rows.base + (row - m0) * stride, rows.term, rows.element)

    def _pack_rows(self, frame: CpuContractionFrame, block: CpuBlock, m0: AxisExpr, depth: DepthBlock) -> None:
        view, blocks = self.view, self.blocks
        side = 1 - view.vector
        stride = self._rows_along_k
        if stride is not None:
            pack(frame, block, Panel(side, view.rows, m0, blocks.bm, view.m, self.rows, ZERO, 1, stride), depth)
            return
        m = frame.writer.variable("m", 0, (-(-view.m // blocks.mr) - 1) * blocks.mr)
        body = block.inner({m})
        row = frame.writer.axis(m)
        base = (row - m0) * blocks.bk
        pack(frame, body, Panel(side, view.rows, row, blocks.mr, view.m, self.rows, base, blocks.mr, 1), depth)
        block.loop(body, m, m0, m0.shift(blocks.bm), blocks.mr, view.m)

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
        packed = {view.operand(side).value for side in (0, 1) if self._place(side) == "const_pool"}
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
