"""Streams whose scores are tiles, and their plan → a GPU kernel, as for attention. No matrix of scores is stored.

the block's product, tile of rows, tile of columns
the queries                                            operand_tile: loaded once; fragments in registers, or in shared
main_loop: a ring of keys and values; every turn
  S = queries·keys                                     tensor_core | cuda_core
  scores, maxima, weights P, row sums                  score_rows: in the registers of S
  A = A·shrink + P·values                              the registers of P are the fragments of its rows
split_stream                                           where several blocks share the keys: joins their parts
contraction_epilogue                                   the region's ops on A and the row sums, and the stores

The order of FlashAttention-2 (T. Dao, 2023). On CUDA cores P goes through shared memory, for a warp's own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.contraction_epilogue import epilogue
from codegen.lower.gpu.contraction_frame import GpuContractionFrame, block_part, block_place
from codegen.lower.gpu.cuda_core import CudaCore, ThreadFragment
from codegen.lower.gpu.main_loop import Between, TurnRange, main_loop
from codegen.lower.gpu.operand_tile import OperandTile
from codegen.lower.gpu.score_rows import RowsFragment, ScoreRows, over_registers, reach_of
from codegen.lower.gpu.split_stream import joined_streams
from codegen.lower.gpu.tensor_core import ACC, A, MatrixFragment, TensorCore
from codegen.lower.gpu.thread_evaluator import ThreadEvaluator, convert, params_of
from codegen.plan.gpu.contraction_tiling import grid_of, tiles_of
from codegen.plan.gpu.operand_read import copied_axes
from codegen.plan.gpu.score_scale import score_scale
from codegen.plan.gpu.stream_shared import stream_shared
from codegen.plan.gpu.stream_tiling import (
    bound_of,
    score_tails,
    stream_products,
    stream_turns,
)
from codegen.plan.stream_view import StreamView
from ir.index.expr import ZERO, AxisExpr, floordiv
from ir.kernel.gpu.kernel import WORD, GpuKernel, Shared
from ir.kernel.gpu.nodes import (
    At,
    Barrier,
    Call,
    CommitGroup,
    Element,
    SetElement,
    StShared,
    SyncWarp,
    Value,
    WaitGroup,
)
from ir.kernel.nodes import Bind, Comment
from ir.plan.gpu import GpuStreamPlan
from ir.plan.plan_to_schedule import plan_to_schedule

Product = TensorCore | CudaCore


def lower_stream(view: StreamView, plan: GpuStreamPlan, name: str = "eq_k") -> GpuKernel:
    """The kernel `name` that runs streams in tiles by a plan that fits."""
    return _GpuStreamTemplate(view, plan).kernel(name)


@dataclass(frozen=True)
class _RowSums:
    """The row sums as the accumulators of a tile of one column. The lanes that share a row have its sum; the first of
    them has the column."""

    scores: RowsFragment
    writer: GpuWriter
    acc: str
    neighbours: int = 1

    @property
    def count(self) -> int:
        return self.scores.own_rows

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        return self.scores.row_place(element), self.writer.split(self.writer.lane, self.scores.across)[1]

    def row_of(self, element: AxisExpr) -> AxisExpr:
        return element


class _GpuStreamTemplate:
    """The template for one plan."""

    def __init__(self, view: StreamView, plan: GpuStreamPlan) -> None:
        self.view, self.plan, self.tile = view, plan, plan.tile
        of, lead = stream_products(view), self.tile.lead
        self.bound = bound_of(view, lead.bm)
        self.writer = writer = GpuWriter(self.tile.threads, grid_of(of[0], lead, plan.places))
        self.block = GpuBlock(writer)
        params_of(view.region, writer)  # their names come first
        batch, row, column = block_place(of[0], lead, plan.places, writer)
        self.part = block_part(of[0], lead, plan.places, writer)
        if self.tile.stops:  # the longest rows first, so that the shortest end the launch evenly
            row = AxisExpr(tiles_of(of[0], lead)[1] - 1) - row
        at = row * lead.bm, column * lead.bn
        frame = GpuContractionFrame(
            of[0],
            lead,
            plan.tails,
            plan.epilogue,
            writer,
            ThreadEvaluator(view.region, writer, approximate=plan.approximate),
            *at,
            {},
        )
        frame = frame.with_digits(frame.along(self.block, of[0].batch, batch))
        self.place = batch, row, column
        tiles = zip(of, self.tile.sums, strict=True)
        self.frames = [replace(frame, view=product, tile=own) for product, own in tiles]
        shared = stream_shared(view, self.tile)
        self.queries: OperandTile | None = None
        self.keys: OperandTile | None = None
        if shared.queries is not None and shared.keys is not None:
            self.queries, self.keys = self._operand_tiles(shared.queries, shared.keys)
        self.values = tuple(
            OperandTile(frame, frame.tile.rhs, writer.allocate(ring), frame.column)
            for frame, ring in zip(self.frames, shared.values, strict=False)
        )
        self.weights = shared.weights and writer.allocate(shared.weights)
        self.result = shared.result and writer.allocate(shared.result)

    def kernel(self, name: str) -> GpuKernel:
        view, block = self.view, self.block
        scores = self._scores()
        products = self._products()
        coarse = self.tile.tensor_cores and bool(products)
        rows = ScoreRows(view, self.frames[0], scores, coarse, self.bound, score_scale(view) if coarse else None)
        rows.start(block)
        ring = [operand for operand in (self.keys, *self.values) if operand is not None]
        copied = any(operand.is_copied for operand in ring)
        self._fetch_queries(copied)

        def turn(body: GpuBlock, number: AxisExpr, stage: AxisExpr, between: Between) -> None:
            between(body, ZERO, 1)
            body.add(Comment("scores, and the maximum of each row"))
            if isinstance(scores, Product):
                rows.clear(body)
                scores.multiply(body, stage)
            rows.finish(body, number)
            rows.rescale(body, products)
            body.add(Comment("weights"))
            rows.weigh(body, number)
            self._pass_weights(body, scores, products)
            for product in products:
                product.multiply(body, stage)

        turns, own = stream_turns(view, self.tile)
        filled = partial(self._await_queries, scores=scores, copied=copied)
        part = TurnRange(self.part * own, own, self._turns_seen(turns, own))
        main_loop(block, ring, turn, self.tile.stages, turns, part, filled)
        rows.gather(block)
        if self.plan.parts is None:
            self._finish(block, rows, products)
        else:
            with joined_streams(self.plan.parts, rows, products, block, self.place, self.part) as joined:
                self._finish(*joined)
        return self._kernel(name)

    def _finish(self, block: GpuBlock, rows: ScoreRows, products: Sequence[RowsFragment]) -> None:
        """Writes the epilogue, from the sums of all terms."""
        rows.complete(block, products)
        sums = rows.sums.get(self.frames[0].view.name, "")
        ends: RowsFragment | _RowSums = products[0] if products else _RowSums(rows.scores, self.writer, sums)
        beside = partial(self._values_at, rows, products, ends)
        free = self.tile.split > 1 or self._result_lies_over_queries
        epilogue(self.frames[0], block, ends, self.result, beside, free=free)

    def _turns_seen(self, turns: int, own: int) -> AxisExpr | None:
        """How many of the block's turns have terms that a row of the tile sees, at least 1; None: all."""
        bound, tile, writer = self.bound, self.tile, self.writer
        if bound is None or not tile.stops or own == 1:
            return None
        first = self.part * own
        reach = reach_of(bound, self.frames[0], tile.bm - 1)
        below = max(
            0, -(writer.bounds(reach)[0] // tile.terms)
        )  # turns that are added so that the dividend is positive
        seen = floordiv(reach.shift((below + 1) * tile.terms), tile.terms, writer.box).shift(-below)
        variable = writer.variable("turns", 1, own)
        most = (AxisExpr(own),) if turns % own == 0 else (AxisExpr(own), AxisExpr(turns) - first)
        self.block.add(Bind(variable, seen - first, most, (AxisExpr(1),)))
        self.block.variables.add(variable)
        return writer.axis(variable)

    # --- products ---

    def _operand_tiles(self, queries: Shared, keys: Shared) -> tuple[OperandTile, OperandTile]:
        """The tile of the queries, and the ring of the keys."""
        assert self.view.scores is not None
        tile = self.tile.scores
        tails = score_tails(self.view, self.tile)
        frame = replace(self.frames[0], view=self.view.scores, tile=tile, tails=tails, column=ZERO)
        rows = OperandTile(frame, tile.lhs, self.writer.allocate(queries), frame.row)
        return rows, OperandTile(frame, tile.rhs, self.writer.allocate(keys), ZERO, over_own=True)

    def _scores(self) -> RowsFragment:
        """The tile of scores: a product, or registers for scores computed from memory."""
        if self.queries is None or self.keys is None:
            if self.tile.tensor_cores:
                return MatrixFragment(self.writer, self.tile.scores, "s")
            return ThreadFragment(self.writer, self.tile.scores, self.view.kind, name="s")
        if self.tile.tensor_cores:
            return TensorCore(
                self.queries.frame, self.queries, self.keys, held=self.tile.held, ahead=self.tile.ahead, name="s"
            )
        return CudaCore(self.queries.frame, self.queries, self.keys, name="s")

    def _products(self) -> list[Product]:
        products: list[Product] = []
        for frame, values in zip(self.frames, self.values, strict=False):
            if self.weights is None:
                products.append(TensorCore(frame, None, values, held=True, ahead=self.tile.ahead, name=frame.view.name))
            else:
                weights = OperandTile(frame, frame.tile.lhs, self.weights, ZERO)
                products.append(CudaCore(frame, weights, values, name=frame.view.name))
        return products

    def _pass_weights(self, block: GpuBlock, scores: RowsFragment, products: list[Product]) -> None:
        """Moves the weights to where the products read them."""
        if self.weights is not None:
            with over_registers(block, scores.count) as (body, e):
                body.add(StShared(At(self.weights.name, scores.place(e)), Element(scores.acc, e, self.view.kind)))
            block.add(SyncWarp())
        for product in products:
            if isinstance(product, TensorCore) and isinstance(scores, MatrixFragment):
                _pack(block, scores, product)

    # --- queries ---

    def _fetch_queries(self, copied: bool) -> None:
        """Starts the copies of the queries; in the group of the first stage where they are not needed earlier."""
        if self.queries is None:
            return
        self.block.add(Comment("the queries"))
        self.queries.fetch(self.block, ZERO, ZERO)
        self.queries.put(self.block, ZERO)
        if self.queries.is_copied and (self.tile.held or not copied):
            self.block.add(CommitGroup())

    def _await_queries(self, block: GpuBlock, scores: RowsFragment, copied: bool) -> None:
        """Waits for the queries, and loads their fragments where these stay in registers."""
        if self.queries is None:
            return
        if self.queries.is_copied and (self.tile.held or not copied):
            block.add(WaitGroup(max(self.tile.stages - 1, 1) if copied else 0))
        if self.tile.held and isinstance(scores, TensorCore):
            block.add(Barrier())
            scores.hold(block)

    @property
    def _result_lies_over_queries(self) -> bool:
        """Whether the result's buffer overlaps only the queries', whose fragments are in registers from the start."""
        if self.queries is None or self.result is None:
            return False
        return self.tile.held and self.result.end <= self.queries.shared.end

    # --- the kernel ---

    def _values_at(
        self, rows: ScoreRows, products: Sequence[RowsFragment], ends: RowsFragment | _RowSums, e: AxisExpr
    ) -> dict[str, Value]:
        """The region's values at register `e` of the first sums."""
        kind, ev = self.view.kind, self.frames[0].evaluator
        beside = {
            frame.view.name: convert(Element(product.acc, e, kind), kind, ev.dtype(frame.view.name))
            for frame, product in zip(self.frames, products, strict=False)
        }
        return {**beside, **rows.values_of_row(ends.row_of(e))}

    def _kernel(self, name: str) -> GpuKernel:
        operands = [operand for operand in (self.queries, self.keys, *self.values) if operand is not None]
        merged: dict[str, int] = {}
        for operand in operands:
            merged |= copied_axes(operand.frame.view, [operand.staged])
        writer = self.writer
        params = params_of(self.view.region, writer, merged)
        return writer.kernel(name, self.plan.kernel_arch, params, self.block, self._comment())

    def _comment(self) -> str:
        view, schedule = self.view, plan_to_schedule(self.plan)
        depth = f" of depth {view.scores.depth}" if view.scores else " from memory"
        hints = ", ".join(f"{key} {value}" for key, value in schedule.layout_hints.items())
        return "\n".join(
            [
                *str(view.region).splitlines(),
                f"{view.repeats} streams of {view.m} x {view.terms} scores{depth}, {len(view.products)} products",
                f"plan {schedule.arch}: tile {'x'.join(map(str, schedule.tile))}, warp_tile {schedule.warp_tile}, "
                f"stages {schedule.stages}, {', '.join(schedule.algo_choice.values())}, {hints}",
                *schedule.notes,
            ]
        )


def _pack(block: GpuBlock, scores: MatrixFragment, product: TensorCore) -> None:
    """Packs weights into fragments of rows: accumulators of two tiles of 8 columns are the registers of 16 terms; of
    tf32, those of one tile the registers of 8 terms."""
    dtype = product.dtype
    with over_registers(block, product.steps * A * product.mi) as (body, number):
        split = block.writer.split
        step, rest = split(number, A * product.mi)
        i, word = split(rest, A)
        right, low = split(word, 2)
        if dtype == "tf32":
            fn, places = dtype, [(i * scores.ni + step) * ACC + low * 2 + right]
        else:
            first = (i * scores.ni + step * 2 + right) * ACC + low * 2
            fn, places = f"pack_{dtype.replace('fp', 'f')}", [first, first.shift(1)]
        weights = tuple(Element(scores.acc, place, "fp32") for place in places)
        body.add(SetElement(product.a, number, Call(fn, weights, WORD)))
