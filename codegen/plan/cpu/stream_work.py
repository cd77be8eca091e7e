"""The work of a plan of streams in tiles.

The model counts cycles of one core as `codegen.plan.cpu.contraction_work` does: the multiply-adds of the products, the
arithmetic per score and per row, packing and stores. Scores never leave the second-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.cpu.contraction_work import PORTS, SMALL_FLOPS, flops_of, registers_per_vector
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, score_weight, weight
from codegen.plan.stream_mask import LastSeen, last_seen
from codegen.plan.stream_view import StreamView
from ir.dtype import DTYPES
from ir.plan.cpu import StreamBlocks
from ir.pricer import Work
from ir.region.region import behind
from ir.region.work import region_bytes, uncached_bytes
from ir.target import Target

_PACK, _STORE = 5.0, 3.0
"""Cycles to pack a register, twice that if a square is transposed; and to store a register in the epilogue."""
_TILE_MOVES = 3
"""Loads and stores per score that arithmetic does not hide, of four."""
_DOT_CYCLES = 8.0
"""Cycles to sum the lanes of one dot product."""
_ROW_CYCLES = 12.0
"""Cycles per row of a tile besides its scores: two horizontal reductions, the starts of loops.

Chosen by measurement on Zen 5 (one thread, 512 and 2048 rows, heads of 64, 128 and 256): times are 0.8 to 0.95 of the
estimate at a nominal clock, as for the two products and the softmax in kernels of their own."""


@dataclass(frozen=True, eq=False)
class CpuStreamWork:
    """The work of every plan of one region's streams on one machine."""

    view: StreamView
    target: Target

    def of(self, blocks: StreamBlocks) -> Work:
        """The work of a plan with these blocks."""
        view, target = self.view, self.target
        seen = self._share_seen(blocks)
        points = self._points * seen
        tiles = [(view.scores, seen * self._whole_tile_flops(view.scores, blocks, blocks.nr))] if view.scores else []
        tiles += [(product, seen * self._whole_tile_flops(product, blocks, blocks.nv)) for product in view.products]
        scored = self._weight_per_score * points / (ADDITIONS_PER_CYCLE * target.lanes)
        moved = _TILE_MOVES * target.vector_cycles * points / target.lanes
        flops = max(1.0, sum(flops for _, flops in tiles), 0.0 if tiles else self._weight_per_score * points)
        ideal = flops / (4 * target.lanes) * self._registers
        products = sum(self._product_cycles(product, flops, blocks) for product, flops in tiles)
        products *= PORTS / target.fma_per_cycle
        cycles = (
            products + scored + moved + seen * self._row_cycles(blocks) + self._epilogue_cycles + self._fetch_cycles
        )
        tasks = self._tasks(blocks)
        rounds = -(-tasks // target.units)
        parallel = is_parallel(view, blocks, target)
        return Work(
            flops=flops,
            bytes=self._bytes,
            compute_dtype=view.kind,
            occupancy=tasks / (rounds * target.units) if parallel else 1 / target.units,
            efficiency=min(1.0, max(0.01, ideal / cycles)),
            layout=self._packing(blocks),
            scratch=resident_bytes(view, blocks),
            parallel=parallel,
            cold_bytes=float(uncached_bytes(view.region)),
        )

    @cached_property
    def _bytes(self) -> float:
        return float(region_bytes(self.view.region))

    def _share_seen(self, blocks: StreamBlocks) -> float:
        """The share of the tiles that the kernel computes."""
        if not blocks.stops or self._bound is None:
            return 1.0
        return self._bound.mean_turns(self.view, blocks.br, blocks.bc) / -(-self.view.terms // blocks.bc)

    @cached_property
    def _bound(self) -> LastSeen | None:
        return last_seen(self.view)

    # --- products ---

    def _whole_tile_flops(self, product: Contraction, blocks: StreamBlocks, width: int) -> float:
        """FLOPs of all register tiles, padding included."""
        if blocks.dot and product is self.view.scores:
            return flops_of(product)
        rows, columns = -(-product.m // blocks.mr) * blocks.mr, -(-product.n // width) * width
        return 2.0 * product.repeats * rows * columns * product.depth

    def _product_cycles(self, product: Contraction, flops: float, blocks: StreamBlocks) -> float:
        """Cycles of the register tiles, and of storing their sums once per block of terms."""
        scores = product is self.view.scores
        if scores and blocks.dot:
            loads = max(1.0, (blocks.mr + blocks.nr) / (blocks.mr * blocks.nr))
            return flops / (4 * self.target.lanes) * self._registers * loads + self._points * _DOT_CYCLES
        width = blocks.nr if scores else blocks.nv
        vectors = width // self.target.lanes * self._registers
        multiplies = blocks.mr * vectors
        inner = max(multiplies, blocks.mr + vectors, 8) / multiplies
        depth = product.depth if scores else blocks.bc
        return flops / (4 * self.target.lanes) * self._registers * inner * (1 + (1 if scores else 2) / max(depth, 1))

    @property
    def _registers(self) -> int:
        return registers_per_vector(self.view.lead)

    # --- scores ---

    @property
    def _points(self) -> int:
        view = self.view
        return view.repeats * view.m * view.terms

    @cached_property
    def _weight_per_score(self) -> float:
        """Additions-worth per score: the ops on it, its maximum, difference and exponential, and the sums of rows."""
        view = self.view
        return self._weight_of(view.roles.score) + score_weight(view.fn, view.kind, self.target) + len(view.row_sums)

    def _weight_of(self, value: str) -> float:
        """Additions-worth of computing a value, without the contraction and its operands."""
        ops = {let.name: let.op for let in self.view.region.body if let.name != self.view.roles.contraction}
        return sum(weight(ops[name], self.target) for name in behind(ops, value) if name in ops)

    @cached_property
    def _fetch_cycles(self) -> float:
        """Cycles to load scores from memory. A product that computes scores hides its loads: then 0."""
        target = self.target
        if self.view.scores is not None:
            return 0.0
        item = DTYPES[self.view.kind].bytes
        moved = self._points * item
        bandwidth = target.cache_bandwidth if moved <= target.last_level_bytes / 2 else target.bandwidth
        return target.cycles_in(moved / bandwidth)

    def _row_cycles(self, blocks: StreamBlocks) -> float:
        view = self.view
        times = -(-view.terms // blocks.bc)
        return view.repeats * view.m * times * _ROW_CYCLES

    # --- moves ---

    def _packing(self, blocks: StreamBlocks) -> float:
        """Cycles of packing over all tasks: queries once, keys and values once per block of rows. Values that few rows
        read without packing count as unpacked even where the keys are the same tensor, which plans then pack."""
        times = -(-self.view.m // blocks.bm)
        queries, keys = (0.0, 0.0) if blocks.dot else self._packed_scores
        values = 0.0 if blocks.dot or self.view.m <= blocks.mr else self._packed_values[0]
        return queries + (keys + values + self._packed_values[1]) * times

    @cached_property
    def _packed_scores(self) -> tuple[float, float]:
        """Cycles of packing all queries, and all keys."""
        scores = self.view.scores
        return (self._pack(scores, 1 - scores.vector), self._pack(scores, scores.vector)) if scores else (0.0, 0.0)

    @cached_property
    def _packed_values(self) -> tuple[float, float]:
        """Cycles of packing all values that are contiguous, which few rows read without packing; and all others."""
        cycles = [(is_contiguous(product), self._pack(product, 1)) for product in self.view.products]
        return sum(cost for run, cost in cycles if run), sum(cost for run, cost in cycles if not run)

    def _pack(self, product: Contraction, side: int) -> float:
        """Cycles of packing all of one operand once."""
        columns = side == product.vector
        group = product.columns if columns else product.rows
        elements = product.repeats * product.depth * (product.n if columns else product.m)
        turned = columns and lanes_along_k(product, side, group, self.target.lanes)
        run, _ = product.run(side, product.k if turned else group)
        filled = max(1, min(product.extent(run), self.target.lanes))
        return elements * _PACK * (2 if turned else 1) / filled

    @cached_property
    def _epilogue_cycles(self) -> float:
        """Cycles of the ops on the sums, and of the stores."""
        view, lanes = self.view, self.target.lanes
        scored = {view.roles.score, view.roles.contraction, *view.roles.members}
        points = view.repeats * view.m * max(view.n, 1)
        ops = {let.name: let.op for let in view.region.body}
        after, total = set(view.roles.members), 0.0
        for name, op in ops.items():
            if name not in scored and not after.isdisjoint(op.reads):
                after.add(name)
                total += weight(op, self.target)
        return points * (total / ADDITIONS_PER_CYCLE + _STORE) / lanes

    def _tasks(self, blocks: StreamBlocks) -> int:
        return max(1, self.view.repeats * -(-self.view.m // blocks.bm))


def is_contiguous(product: Contraction) -> bool:
    """Whether neighbouring columns of a product's values are neighbours in memory."""
    run, step = product.run(1, product.columns)
    return run == product.columns and step == 1


def is_parallel(view: StreamView, blocks: StreamBlocks, target: Target) -> bool:
    """Whether several threads run the tasks."""
    has_tasks = view.repeats * -(-view.m // blocks.bm) > 1
    flops = sum(flops_of(product) for product in (view.scores, view.lead) if product)
    return target.units > 1 and has_tasks and flops >= SMALL_FLOPS


def resident_bytes(view: StreamView, blocks: StreamBlocks) -> int:
    """Bytes that a task passes through repeatedly: a tile of scores, the packed keys and values of a block."""
    elements = blocks.br * blocks.score_stride
    if view.scores is not None and not blocks.dot:
        elements += blocks.width * view.scores.depth
    elements += sum(blocks.bc * blocks.sum_stride(product.n) for product in view.products)
    return elements * DTYPES[view.kind].bytes


def row_bytes(view: StreamView, blocks: StreamBlocks) -> int:
    """Bytes of a task's queries and sums. A task passes through them once per block of terms, so they may lie in a
    farther cache: 540 to 2052 rows, of 0.5 to 4 MiB, take the same time with a second level of 1 MiB."""
    depth = view.scores.depth if view.scores is not None and not blocks.dot else 0
    elements = blocks.bm * (depth + sum(blocks.sum_stride(product.n) for product in view.products))
    return elements * DTYPES[view.kind].bytes
