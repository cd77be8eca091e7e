"""Streams whose scores are tiles, and their plan → a CPU kernel, as for attention. No matrix of scores is stored.

    for each task (batch, block of rows):                                     in parallel
      pack the queries                                    once per task
      for each block of terms:
        pack keys and values                              once per block, for all rows of the task
        for each tile of rows:                            that sees a term of the block
          S = queries·keys                                register_tile, into the tile of scores
          finish, rescale, weigh                          score_tile: S becomes the weights P
          A = A·shrink + P·values                         register_tile, the sums in the thread's workspace
      the epilogue on the sums, and the store

The order of FlashAttention (T. Dao et al., 2022), but with the loop over keys outside, so that keys and values are
packed once for many rows. The sums of the rows stay in the second-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from codegen.lower.cpu.buffer_names import unused_name
from codegen.lower.cpu.builder import CpuBlock, CpuWriter, with_guard
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock, bound, depth_block, depth_blocks
from codegen.lower.cpu.finite_numbers import add_zeros, is_nan, start_zeros, sum_zeros
from codegen.lower.cpu.pack import Panel, pack
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.lower.cpu.register_tile import RegisterTile, Side, TileSums, dot_tile, outer_tile
from codegen.lower.cpu.score_tile import RowRange, ScoreTile
from codegen.lower.cpu.seen_terms import SeenTerms
from codegen.lower.cpu.stream_epilogue import stream_tile_epilogue
from codegen.lower.cpu.tasks import task_phase
from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.cpu.stream_tiling import (
    blocks_of_product,
    blocks_of_scores,
    scores_are_aligned,
)
from codegen.plan.region_loops import RegionLoops
from codegen.plan.stream_view import StreamView
from ir.index.expr import ZERO, AxisExpr, constant, floordiv
from ir.kernel.cpu.kernel import Phase, Scratch
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel
from ir.kernel.cpu.nodes import Load
from ir.kernel.nodes import Comment, Within
from ir.plan.cpu import CpuStreamPlan, PackedTensor
from ir.plan.plan_to_schedule import plan_to_schedule


def lower_stream(view: StreamView, plan: CpuStreamPlan, name: str = "eq_k") -> LoweredCpuKernel:
    """The kernel `name` that runs streams in tiles by a plan that fits."""
    return _CpuStreamTemplate(view, plan).kernel(name)


class _CpuStreamTemplate:
    """The template for one plan. Attributes for buffers of the workspace hold their names in the kernel."""

    def __init__(self, view: StreamView, plan: CpuStreamPlan) -> None:
        self.view, self.plan = view, plan
        self.blocks = plan.blocks
        self.writer = CpuWriter(self.blocks.lanes)
        self.params = self.writer.params(view.region)
        self.queries, self.keys = self._buffer("queries"), self._buffer("keys")
        self.values = {product.name: self._buffer(f"{product.name}_values") for product in view.products}
        self.sums = {product.name: self._buffer(f"{product.name}_sums") for product in view.products}
        self.tile = ScoreTile(
            view=view,
            blocks=self.blocks,
            tile=self._buffer("score_tile"),
            fresh=self._buffer("fresh"),
            base=self._buffer("base"),
            shrink=self._buffer("shrink"),
            top=self._buffer("top"),
            sums={row_sum.name: self._buffer(f"{row_sum.name}_sum") for row_sum in view.row_sums},
        )

    def kernel(self, name: str) -> LoweredCpuKernel:
        region, writer = self.view.region, self.writer
        evaluator = RegionEvaluator(RegionLoops(region, self.view.lead.core), writer)
        blocks = blocks_of_product(self.view.lead, self.blocks)
        phase = self._tasks(CpuContractionFrame(self.view.lead, blocks, writer, evaluator, {}))
        kernel = writer.kernel(name, self.params, (phase,), self._comment())
        return LoweredCpuKernel(kernel, tuple(buffer.name for buffer in region.buffers))

    # --- the loop nest ---

    def _tasks(self, frame: CpuContractionFrame) -> Phase:
        self._scratch()
        loops = {"batch": self.view.repeats, "m.o": self._row_blocks}
        return task_phase(self.writer, self.plan.parallel, loops, lambda block, *at: self._task(frame, block, *at))

    def _task(self, frame: CpuContractionFrame, block: CpuBlock, batch: AxisExpr, row_block: AxisExpr) -> None:
        view, bm = self.view, self.blocks.bm
        b = bound(block, "b", batch, view.repeats - 1)
        m0 = bound(block, "m0", row_block * bm, (self._row_blocks - 1) * bm)
        frame = frame.with_digits(frame.along(view.roles.batch, b))
        self.tile.start(block)
        queries = self._pack_queries(frame, block, m0)
        count = depth_blocks(view.lead, frame.blocks)
        number = self.writer.variable("kb", 0, count - 1)
        if count == 1:
            self._terms(frame, block, ZERO, m0, queries)
        else:
            body = block.inner({number})
            self._terms(frame, body, self.writer.counter(number), m0, queries)
            block.loop(body, number, ZERO, constant(count))
        block.add(Comment("epilogue: " + (", ".join(self.plan.epilogue) or "store")))
        stream_tile_epilogue(frame, block, self.tile, self.sums, m0)

    def _terms(
        self, frame: CpuContractionFrame, block: CpuBlock, number: AxisExpr, m0: AxisExpr, queries: Side | None
    ) -> None:
        """Writes one block of terms, for all rows of the task."""
        view, br = self.view, self.blocks.br
        placed, depth = depth_block(frame, block, number)
        for product in view.products:
            self._pack_values(placed.view_as(product), block, depth)
        seen = SeenTerms(view, self.blocks, depth, self._search_values(block, depth)) if self.blocks.stops else None
        with_guard(
            block, [seen.by_task(m0, self.writer)] if seen else [], lambda inner: self._pack_keys(placed, inner, depth)
        )
        r0 = self.writer.variable("r0", 0, max(view.m - 1, 0) // br * br)
        tile = block.inner({r0})
        rows = RowRange(self.writer.axis(r0), m0)
        last = depth_blocks(view.lead, frame.blocks) - 1
        resumed = Within(number, 1, last + 1) if last else None
        with_guard(
            tile,
            [seen.by_tile(rows.first, self.writer)] if seen else [],
            lambda inner: self._tile(placed, inner, rows, depth, queries, resumed),
        )
        block.loop(tile, r0, m0, m0.shift(self.blocks.bm), br, view.m)

    def _tile(
        self,
        frame: CpuContractionFrame,
        body: CpuBlock,
        rows: RowRange,
        depth: DepthBlock,
        queries: Side | None,
        resumed: Within | None,
    ) -> None:
        """Writes one tile of scores, and adds its products to the sums."""
        self._scores(frame, body, rows, depth, queries)
        body.add(Comment("scores, and the maximum of each row"))
        self.tile.finish(frame, body, rows, depth)
        self.tile.rescale(body, rows)
        body.add(Comment("weights"))
        self.tile.weigh(frame, body, rows, depth)
        for product in self.view.products:
            self._product(frame.view_as(product), body, rows, depth, resumed)

    # --- products ---

    def _scores(
        self, frame: CpuContractionFrame, block: CpuBlock, rows: RowRange, depth: DepthBlock, queries: Side | None
    ) -> None:
        """Writes the products of queries and keys, into the tile."""
        view, blocks, stride = self.view, self.blocks, self.tile.stride
        if view.scores is None:
            return
        frame, whole = depth_block(self._of_scores(frame, view.scores), block, ZERO)
        if blocks.dot:
            self._dots(frame, block, rows, depth, whole)
            return

        def tile(body: CpuBlock, row: AxisExpr, column: AxisExpr) -> None:
            into = TileSums(self.tile.tile, (row - rows.first) * stride + (column - depth.first), stride)
            side = None if queries is None else self._at_row(queries, row - rows.task)
            keys = Side(self.keys, (column - depth.first) * frame.view.depth, blocks.nr, 1)
            outer_tile(frame, body, RegisterTile(whole, row, column, into), side, keys if self._keys_packed else None)

        block.add(Comment(f"{blocks.mr} x {blocks.nr} scores in registers"))
        self._tiles(block, rows, depth.first, depth.first + depth.count, blocks.nr, view.terms, tile)

    def _of_scores(self, frame: CpuContractionFrame, view: Contraction) -> CpuContractionFrame:
        """The frame of the product of queries and keys."""
        aligned = scores_are_aligned(view, self.blocks)
        return frame.view_as(view, blocks_of_scores(view, self.blocks), aligned=aligned)

    def _dots(
        self, frame: CpuContractionFrame, block: CpuBlock, rows: RowRange, depth: DepthBlock, whole: DepthBlock
    ) -> None:
        """As `_scores`, but by dot products: several terms side by side, then single terms."""
        view, stride, nr = frame.view, self.tile.stride, self.blocks.nr
        run, _ = view.run(view.vector, view.k)
        even = floordiv(depth.count, nr, self.writer.box) * nr
        block.add(Comment(f"{self.blocks.mr} x {nr} dot products in registers"))
        for start, stop, width in ((ZERO, even, nr), (even, depth.count, 1)):
            if start == stop:
                continue

            def tile(body: CpuBlock, row: AxisExpr, column: AxisExpr, width: int = width) -> None:
                into = TileSums(self.tile.tile, (row - rows.first) * stride + (column - depth.first), stride)
                dot_tile(frame, body, RegisterTile(whole, row, column, into), run, width)

            self._tiles(block, rows, depth.first + start, depth.first + stop, width, view.n - width + 1, tile)

    def _product(
        self, frame: CpuContractionFrame, block: CpuBlock, rows: RowRange, depth: DepthBlock, resumed: Within | None
    ) -> None:
        """Writes the products of weights and values, added to the sums of the blocks before."""
        view, blocks = frame.view, self.blocks
        frame = frame.view_as(view, blocks_of_product(view, blocks))
        stride = blocks.sum_stride(view.n)

        def tile(body: CpuBlock, row: AxisExpr, column: AxisExpr) -> None:
            into = TileSums(self.sums[view.name], (row - rows.task) * stride + column, stride)
            weights = Side(self.tile.tile, (row - rows.first) * self.tile.stride, 1, self.tile.stride)
            values = Side(self.values[view.name], column * blocks.bc, blocks.nv, 1)
            factor = Side(self.tile.shrink, row - rows.first, 0, 1) if resumed else None
            packed = self._is_packed(view, 1, "k.o")
            outer_tile(
                frame,
                body,
                RegisterTile(depth, row, column, into, resumed, factor),
                weights,
                values if packed else None,
            )

        block.add(Comment(f"{blocks.mr} x {blocks.nv} sums in registers"))
        self._tiles(block, rows, ZERO, constant(view.n), blocks.nv, view.n, tile)

    def _tiles(
        self,
        block: CpuBlock,
        rows: RowRange,
        start: AxisExpr,
        stop: AxisExpr,
        step: int,
        size: int,
        body: Callable[[CpuBlock, AxisExpr, AxisExpr], None],
    ) -> None:
        """Calls body(block, row, column) in loops over the register tiles of some columns and of the tile's rows."""
        writer, mr = self.writer, self.blocks.mr
        n = writer.variable("n", 0, max(size - 1, 0))
        m = writer.variable("m", 0, max(self.view.m - 1, 0) // mr * mr)
        panel = block.inner({n})
        inner = panel.inner({m})
        body(inner, writer.axis(m), writer.axis(n))
        panel.loop(inner, m, rows.first, rows.first.shift(self.blocks.br), mr, self.view.m)
        block.loop(panel, n, start, stop, step)

    # --- panels ---

    @property
    def _row_blocks(self) -> int:
        return -(-self.view.m // self.blocks.bm)

    @property
    def _keys_packed(self) -> bool:
        scores = self.view.scores
        return scores is not None and self._is_packed(scores, scores.vector, "k.o")

    def _is_packed(self, view: Contraction, side: int, at: Literal["m.o", "k.o"]) -> bool:
        return PackedTensor(view.operand(side).value, at) in self.plan.packed

    @property
    def _query_stride(self) -> int | None:
        """The stride between rows where a row of queries is contiguous; None where queries lie in panels."""
        view = self.view.scores
        if view is None or not view.rows or not lanes_along_k(view, 1 - view.vector, view.rows, self.blocks.lanes):
            return None
        return view.depth + self.blocks.lanes

    def _pack_queries(self, frame: CpuContractionFrame, block: CpuBlock, m0: AxisExpr) -> Side | None:
        """Packs the queries; the side of the task's first tile of rows, or None where queries are read from memory."""
        view, blocks = self.view.scores, self.blocks
        if view is None or not self._is_packed(view, 1 - view.vector, "m.o"):
            return None
        block.add(Comment(f"pack the rows of {view.operand(1 - view.vector).value}"))
        frame, depth = depth_block(self._of_scores(frame, view), block, ZERO)
        side, stride = 1 - view.vector, self._query_stride
        if stride is not None:
            pack(frame, block, Panel(side, view.rows, m0, blocks.bm, view.m, self.queries, ZERO, 1, stride), depth)
            return Side(self.queries, ZERO, 1, stride)
        m = self.writer.variable("m", 0, max(view.m - 1, 0) // blocks.mr * blocks.mr)
        body = block.inner({m})
        row = self.writer.axis(m)
        base = (row - m0) * view.depth
        pack(frame, body, Panel(side, view.rows, row, blocks.mr, view.m, self.queries, base, blocks.mr, 1), depth)
        block.loop(body, m, m0, m0.shift(blocks.bm), blocks.mr, view.m)
        return Side(self.queries, ZERO, blocks.mr, 1)

    def _at_row(self, queries: Side, row: AxisExpr) -> Side:
        assert self.view.scores is not None
        stride = self._query_stride or self.view.scores.depth
        return Side(queries.buffer, row * stride, queries.term, queries.element)

    def _pack_keys(self, frame: CpuContractionFrame, block: CpuBlock, depth: DepthBlock) -> None:
        view, nr = self.view.scores, self.blocks.nr
        if view is None or not self._keys_packed:
            return
        block.add(Comment(f"pack a block of {view.operand(view.vector).value}"))
        frame, whole = depth_block(self._of_scores(frame, view), block, ZERO)
        n = self.writer.variable("n", 0, max(view.n - 1, 0))
        body = block.inner({n})
        column = self.writer.axis(n)
        base = (column - depth.first) * view.depth
        pack(frame, body, Panel(view.vector, view.columns, column, nr, view.n, self.keys, base, nr, 1), whole)
        block.loop(body, n, depth.first, depth.first + depth.count, nr)

    def _pack_values(self, frame: CpuContractionFrame, block: CpuBlock, depth: DepthBlock) -> None:
        view, nv = frame.view, self.blocks.nv
        if not self._is_packed(view, 1, "k.o"):
            return
        block.add(Comment(f"pack a block of {view.operand(1).value}"))
        n = self.writer.variable("n", 0, max(view.n - 1, 0))
        body = block.inner({n})
        column, values = self.writer.axis(n), self.values[view.name]
        base = column * self.blocks.bc
        pack(frame, body, Panel(1, view.columns, column, nv, view.n, values, base, nv, 1), depth)
        block.loop(body, n, ZERO, constant(view.n), nv)

    def _search_values(self, block: CpuBlock, depth: DepthBlock) -> AxisExpr:
        """1 where a value of this block of terms is infinite or NaN, which a weight of 0 does not hide; else 0."""
        writer, blocks, kind = self.writer, self.blocks, self.view.kind
        block.add(Comment("is a value infinite or NaN?"))
        zeros = start_zeros(block, kind)
        for product in self.view.products:
            n = writer.variable("n", 0, max(product.n - 1, 0))
            x = writer.variable("x", 0, depth.most * blocks.nv - 1)
            panel = block.inner({n})
            body = panel.inner({x})
            value = Load(self.values[product.name], writer.axis(n) * blocks.bc + writer.axis(x), kind)
            add_zeros(body, zeros, value)
            panel.loop(body, x, ZERO, depth.count * blocks.nv, blocks.lanes)
            block.loop(panel, n, ZERO, constant(product.n), blocks.nv)
        return is_nan(block, sum_zeros(block, zeros))

    # --- the kernel ---

    def _buffer(self, name: str) -> str:
        return self.writer.buffer(unused_name(name, self.view.region))

    def _scratch(self) -> None:
        view, blocks, kind = self.view, self.blocks, self.view.kind
        sizes: dict[str, int] = {}
        if view.scores is not None:
            depth = view.scores.depth
            if self._is_packed(view.scores, 1 - view.scores.vector, "m.o"):
                sizes[self.queries] = blocks.bm * (self._query_stride or depth) + blocks.lanes
            if self._keys_packed:
                sizes[self.keys] = blocks.width * depth
        for product in view.products:
            if self._is_packed(product, 1, "k.o"):
                sizes[self.values[product.name]] = blocks.sum_stride(product.n) * blocks.bc
            sizes[self.sums[product.name]] = blocks.bm * blocks.sum_stride(product.n)
        self.writer.private += [Scratch(name, kind, max(1, size)) for name, size in sizes.items()]
        self.writer.private += self.tile.scratch()

    def _comment(self) -> str:
        view, blocks = self.view, self.blocks
        depth = f" of depth {view.scores.depth}" if view.scores else " from memory"
        depth += ", dot products" if blocks.dot else ""
        return "\n".join(
            [
                f"{view.region.name}: {view.repeats} streams of {view.m} x {view.terms} scores{depth},"
                f" {len(view.products)} products of {view.n} columns",
                f"tile {blocks.mr} x {blocks.nr} and {blocks.mr} x {blocks.nv}, blocks {blocks.bm} x {blocks.br} x"
                f" {blocks.bc}, cache "
                + (", ".join(str(entry) for entry in plan_to_schedule(self.plan).cache) or "none"),
                f"epilogue {', '.join(self.plan.epilogue) or 'none'}, tails {', '.join(self.plan.tails) or 'none'}",
            ]
        )
