"""A contraction and its Plan → a CPU kernel: the one template of matrix products and convolutions.

    for each task (batch, block of rows, block of columns):                  in parallel
      for each block of k:
        pack the broadcast side's rows                    once per block      (packed when built, if constant)
        for each panel of columns:
          pack the panel                                  into the first-level cache
          for each tile of rows:
            MR × NR sums in registers                     register_tile
            after the last block of k: the epilogue       on the sums, vector by vector, and the store

Each output element is summed by one task in one order, whatever the number of threads.
"""

from __future__ import annotations

import msgspec

from codegen.lower.blocks import Block, Writer
from codegen.lower.contraction_epilogue import epilogue
from codegen.lower.contraction_frame import (
    DepthBlock,
    Frame,
    bound,
    depth_block,
    depth_blocks,
)
from codegen.lower.lower_value import Evaluator
from codegen.lower.pack import Panel, pack
from codegen.lower.pack_constant import PackedConstant, buffer_param, pack_constant, packed_name, product_base, unused
from codegen.lower.register_tile import Accumulator, Side, dot_tile, outer_tile
from codegen.plan.contraction import STAGE, Contraction, contraction_of, lanes_along_k
from codegen.plan.plan_contraction import Blocks
from ir.axis_expr import ZERO, AxisExpr, constant, floordiv, mod
from ir.cpu import Comment, Kernel, Param, Phase, Scratch, Within
from ir.diagnostics import Kind, fail
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.region import Operand, Region


class ContractionKernel(msgspec.Struct, frozen=True):
    """`args` names what each of `kernel.params` is: the region's inputs that it still reads, the packed constants,
    then the outputs."""

    kernel: Kernel
    args: tuple[str, ...]
    packed: tuple[PackedConstant, ...]


def lower_contraction(region: Region, core: PolyCore, plan: Plan, name: str = "eq_k") -> ContractionKernel:
    """The kernel `name` of a region whose plan `codegen.plan.plan_contraction` made.

    Raises:
        EqsatError: UnsupportedOp where the region holds no contraction that the template covers;
            ResourceExceeded where the plan leaves out the tail of an axis that its tile does not divide.
    """
    side = 1 if plan.layout_hints.get("vector", "rhs") == "rhs" else 0
    view = contraction_of(region, core, vector=side)
    if view is None or plan.vectorize is None:
        fail(Kind.UNSUPPORTED_OP, STAGE, "the region holds no contraction that the template covers", at=region.name)
    blocks = _blocks(plan)
    _check_tails(view, plan, blocks)
    constants = tuple(
        pack_constant(view, core, blocks, plan.vectorize.width, side, f"{name}_pack{side}")
        for side in (0, 1)
        if _cached(view, plan, side) == "const_pool"
    )
    return _Template(view, core, plan, blocks, plan.vectorize.width).kernel(name, constants)


def _blocks(plan: Plan) -> Blocks:
    mr, nr = (int(size) for size in plan.warp_tile.split("x"))
    return Blocks(mr, nr, *plan.tile)


def _check_tails(view: Contraction, plan: Plan, blocks: Blocks) -> None:
    """An axis that is not predicated promises that its tile divides it."""
    dot = plan.algo_choice.get("matmul") == "dot"
    last = plan.vectorize.width if dot and plan.vectorize else blocks.bk
    for axis, size, piece in (("m", view.m, blocks.mr), ("n", view.n, blocks.nr), ("k", view.depth, last)):
        if axis not in plan.predicate_tail and size % piece:
            fail(
                Kind.RESOURCE_EXCEEDED,
                STAGE,
                f"the plan cuts axis {axis} ({size}) into tiles of {piece} and does not predicate the last one",
                at=view.region.name,
                hint=f'put "{axis}" into predicate_tail',
            )


def _cached(view: Contraction, plan: Plan, side: int) -> str | None:
    name = view.operand(side).value
    return next((each.where for each in plan.cache if each.tensor == name), None)


class _Template:
    """The template with one plan injected. `sums`, `rows`, `columns` are its scratch buffers."""

    def __init__(self, view: Contraction, core: PolyCore, plan: Plan, blocks: Blocks, lanes: int) -> None:
        self.view, self.core, self.plan, self.blocks, self.lanes = view, core, plan, blocks, lanes
        self.sums, self.rows, self.columns = (unused(each, view.region) for each in ("sums", "rows", "columns"))

    def kernel(self, name: str, constants: tuple[PackedConstant, ...]) -> ContractionKernel:
        view, region = self.view, self.view.region
        writer = Writer(self.lanes)
        gone = {source for each in constants for source in each.sources} - self._still_read()
        inputs = [buffer_param(writer, each, written=False) for each in region.inputs if each.name not in gone]
        packed = [Param(writer.buffer(each.name), each.dtype, each.elements) for each in constants]
        outputs = [buffer_param(writer, each, written=True) for each in region.outputs]
        evaluator = Evaluator(region, self.core, writer)
        tasks = view.repeats * self._row_blocks * self._column_blocks if view.m and view.n else 0
        phases = (self._tasks(Frame(view, self.blocks, writer, evaluator, {}), tasks),) if tasks else ()
        kernel = Kernel(
            name=name,
            lanes=self.lanes,
            params=(*inputs, *packed, *outputs),
            variables=tuple(writer.variables),
            phases=phases,
            comment=self._comment(),
        )
        kept = [each.name for each in region.inputs if each.name not in gone]
        args = (*kept, *(each.name for each in constants), *(each.name for each in region.outputs))
        return ContractionKernel(kernel, args, constants)

    # --- the loop nest ---

    def _tasks(self, frame: Frame, tasks: int) -> Phase:
        """One phase: a task per block of rows and columns, or one task that walks them all."""
        writer = frame.writer
        task = writer.variable("task", 0, max(tasks - 1, 0))
        body = Block(writer, variables={task})
        self._scratch(body)
        if self.plan.bind or tasks <= 1:
            self._task(frame, body, writer.axis(task))
            return Phase(task, tasks, tuple(body.statements))
        self._task(frame, body, writer.axis(task))
        only = writer.variable("all", 0, 0)
        whole = Block(writer, variables={only})
        whole.loop(body, task, ZERO, constant(tasks))
        return Phase(only, 1, tuple(whole.statements))

    def _task(self, frame: Frame, block: Block, task: AxisExpr) -> None:
        view, blocks, box = self.view, self.blocks, frame.writer.box
        n_blocks, m_blocks = self._column_blocks, self._row_blocks
        n0 = bound(block, "n0", mod(task, n_blocks, box) * blocks.bn, (n_blocks - 1) * blocks.bn)
        rest = floordiv(task, n_blocks, box)
        m0 = bound(block, "m0", mod(rest, m_blocks, box) * blocks.bm, (m_blocks - 1) * blocks.bm)
        rest = floordiv(rest, m_blocks, box)
        outer, repeat = view.extent(view.outer), view.extent(view.batch)
        o = bound(block, "o", mod(rest, outer, frame.writer.box), outer - 1)
        b = bound(block, "b", floordiv(rest, outer, frame.writer.box), repeat - 1)
        frame = frame.placed({**frame.along(view.outer, o), **frame.along(view.batch, b)})
        count = depth_blocks(view, blocks)
        number = frame.writer.variable("kb", 0, count - 1)
        if count == 1:
            self._depth(frame, block, constant(0), m0, n0)
            return
        body = block.inner({number})
        self._depth(frame, body, frame.writer.axis(number), m0, n0)
        block.loop(body, number, ZERO, constant(count))

    def _depth(self, frame: Frame, block: Block, number: AxisExpr, m0: AxisExpr, n0: AxisExpr) -> None:
        """One block of k: rows are packed, then panel by panel the columns."""
        view, blocks = self.view, self.blocks
        frame, depth = depth_block(frame, block, number)
        row_panel = self._row_panel(frame, m0, depth)
        if self._where(1 - view.vector) == "packed":
            block.add(Comment(f"pack the rows of {view.operand(1 - view.vector).value}"))
            self._pack_rows(frame, block, m0, depth)
        n = frame.writer.variable("n", 0, (-(-view.n // blocks.nr) - 1) * blocks.nr)
        panel = block.inner({n})
        column = frame.writer.axis(n)
        if self._where(view.vector) == "packed":
            panel.add(Comment(f"pack a panel of {view.operand(view.vector).value}"))
            pack(frame, panel, self._column_panel(column), depth)
        m = frame.writer.variable("m", 0, (-(-view.m // blocks.mr) - 1) * blocks.mr)
        tile = panel.inner({m})
        row = frame.writer.axis(m)
        tall, wide = self._tile_block
        into = Accumulator(
            frame.writer.buffer(self.sums), (column - n0) * tall + (row - m0) * blocks.nr if wide else ZERO
        )
        self._tile(frame, tile, depth, number, row, column, m0, row_panel, into)
        panel.loop(tile, m, m0, m0.shift(blocks.bm), blocks.mr, view.m)
        block.loop(panel, n, n0, n0.shift(blocks.bn), blocks.nr, view.n)

    def _tile(
        self,
        frame: Frame,
        block: Block,
        depth: DepthBlock,
        number: AxisExpr,
        row: AxisExpr,
        column: AxisExpr,
        m0: AxisExpr,
        rows: Side | None,
        into: Accumulator,
    ) -> None:
        view, blocks = self.view, self.blocks
        last = depth_blocks(view, blocks) - 1
        block.add(Comment(f"{blocks.mr} x {blocks.nr} sums in registers"))
        if self.plan.algo_choice.get("matmul") == "dot":
            self._dot(frame, block, depth, row, column, into)
        else:
            columns = self._column_side(frame, column, depth)
            again = Within(number, 1, last + 1) if last else None
            tile_rows = self._at_row(rows, row, m0)
            outer_tile(frame, block, depth, tile_rows, columns, row, column, into, again)
        if not last:
            epilogue(frame, block, self.plan.epilogue, row, column, into)
            return
        done = Within(number, last, last + 1)
        finish = block.inner(barrier=True, facts=(done,))
        epilogue(frame, finish, self.plan.epilogue, row, column, into)
        block.guard(finish, (done,))

    def _dot(
        self, frame: Frame, block: Block, depth: DepthBlock, row: AxisExpr, column: AxisExpr, into: Accumulator
    ) -> None:
        """A whole tile of columns, or one column at a time where the last tile is cut."""
        view, nr = self.view, self.blocks.nr
        run, _ = view.run(view.vector, view.k)
        whole = view.n // nr * nr
        if whole == view.n:
            dot_tile(frame, block, depth, run, row, column, nr, into)
            return
        full, cut = Within(column, 0, whole), block.inner(barrier=True)
        if whole:
            body = block.inner(barrier=True)
            dot_tile(frame, body, depth, run, row, column, nr, into)
            block.guard(body, (full,))
        j = frame.writer.variable("j", whole, view.n - 1)
        single = cut.inner({j})
        at = frame.writer.axis(j)
        one = Accumulator(into.buffer, into.base + at.shift(-whole))
        dot_tile(frame, single, depth, run, row, at, 1, one)
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
        """Rows of a task, and whether its sums outlive a block of k, so that every tile has its own place."""
        return self.blocks.bm, depth_blocks(self.view, self.blocks) > 1

    def _where(self, side: int) -> str | None:
        return _cached(self.view, self.plan, side)

    @property
    def _rows_along_k(self) -> int | None:
        """The stride between rows where row panels are laid out term by term; None for column panels."""
        view = self.view
        if not view.rows or not lanes_along_k(view, 1 - view.vector, view.rows, self.lanes):
            return None
        return self.blocks.bk + self.lanes

    def _scratch(self, block: Block) -> None:
        view, blocks = self.view, self.blocks
        _, many = self._tile_block
        name = block.writer.buffer
        sums = blocks.bm * blocks.bn if many else blocks.mr * blocks.nr
        block.add(Scratch(name(self.sums), view.accumulator, sums))
        if self._where(view.vector) == "packed":
            block.add(Scratch(name(self.columns), view.accumulator, blocks.bk * blocks.nr))
        if self._where(1 - view.vector) == "packed":
            each = self._rows_along_k or blocks.bk
            block.add(Scratch(name(self.rows), view.accumulator, blocks.bm * each + self.lanes))

    def _column_panel(self, column: AxisExpr) -> Panel:
        view, nr = self.view, self.blocks.nr
        return Panel(view.vector, view.columns, column, nr, view.n, self.columns, ZERO, nr, 1)

    def _column_side(self, frame: Frame, column: AxisExpr, depth: DepthBlock) -> Side | None:
        view, nr = self.view, self.blocks.nr
        where = self._where(view.vector)
        if where == "packed":
            return Side(frame.writer.buffer(self.columns), ZERO, nr, 1)
        if where is None:
            return None
        base = product_base(frame, view.vector, nr, view.n) + column * view.depth + depth.first * nr
        return Side(frame.writer.buffer(packed_name(view, view.vector)), base, nr, 1)

    def _row_panel(self, frame: Frame, m0: AxisExpr, depth: DepthBlock) -> Side | None:
        """The side of the first tile of rows of the task."""
        view, mr = self.view, self.blocks.mr
        side = 1 - view.vector
        where = self._where(side)
        if where == "packed":
            stride, name = self._rows_along_k, frame.writer.buffer(self.rows)
            return Side(name, ZERO, 1, stride) if stride else Side(name, ZERO, mr, 1)
        if where is None:
            return None
        base = product_base(frame, side, mr, view.m) + m0 * view.depth + depth.first * mr
        return Side(frame.writer.buffer(packed_name(view, side)), base, mr, 1)

    def _at_row(self, rows: Side | None, row: AxisExpr, m0: AxisExpr) -> Side | None:
        if rows is None:
            return None
        packed = self._where(1 - self.view.vector) == "packed"
        each = (self._rows_along_k or self.blocks.bk) if packed else self.view.depth
        return Side(rows.buffer, rows.base + (row - m0) * each, rows.term, rows.element)

    def _pack_rows(self, frame: Frame, block: Block, m0: AxisExpr, depth: DepthBlock) -> None:
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
                f" {self.plan.algo_choice.get('matmul')}, cache "
                + (", ".join(f"{each.tensor}: {each.where} at {each.at}" for each in self.plan.cache) or "none"),
                f"epilogue {', '.join(self.plan.epilogue) or 'none'},"
                f" tails {', '.join(self.plan.predicate_tail) or 'none'}",
            ]
        )

    def _still_read(self) -> set[str]:
        """Buffers that are read other than through a packed operand."""
        view = self.view
        packed = {view.operand(side).value for side in (0, 1) if self._where(side) == "const_pool"}
        open_ = [each.value for each in view.region.yields]
        bodies = {let.name: let.op for let in view.region.body}
        seen: set[str] = set()
        while open_:
            name = open_.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in bodies:
                inputs = [each.value for each in bodies[name].inputs if isinstance(each, Operand)]
                open_ += [each for each in inputs if name != view.name or each not in packed]
        return seen
