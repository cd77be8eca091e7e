"""The work that a plan of streams in tiles makes the machine do.

The model counts cycles of one core as `codegen.plan.cpu.contraction_work` does: the multiply-adds of the products, what
is computed per score and per row, packing, stores. Scores never leave the second-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.cpu.contraction_work import SMALL_FLOPS, flops_of, registers_per_vector
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, score_weight, weight
from codegen.plan.stream_view import StreamView
from ir.dtype import DTYPES
from ir.plan.cpu import StreamBlocks
from ir.pricer import Work
from ir.region.region import Operand, behind
from ir.region.work import region_bytes
from ir.target import Target

_PACK, _STORE = 5.0, 3.0
"""Cycles per register that is packed, turned in a square at twice that; and stored by an epilogue."""
_TILE_MOVES = 3
"""Registers of a tile moved per score that arithmetic does not hide, of four loaded and stored."""
_DOT_CYCLES = 8.0
"""Cycles to add up the lanes of one dot product."""
_ROW_CYCLES = 12.0
"""Cycles per row of a tile besides its scores: two horizontal reductions, the loops' starts.

With these the model is as far from CPU times of one thread (Zen 5, 512 and 2048 rows, heads of 64, 128 and 256) as that
of the two products and the softmax apart: 0.8 to 0.95 of the estimate at a nominal clock."""


@dataclass(frozen=True, eq=False)
class CpuStreamWork:
    """Works of the plans of one region's streams on one machine."""

    view: StreamView
    target: Target

    def of(self, blocks: StreamBlocks) -> Work:
        """The work of a plan that cuts the streams so."""
        view, target = self.view, self.target
        tiles = [(each, self._whole(each, blocks, blocks.nr)) for each in (view.scores,) if each]
        tiles += [(each, self._whole(each, blocks, blocks.nv)) for each in view.products]
        scored = self._scored * self._points / (ADDITIONS_PER_CYCLE * target.lanes)
        moved = _TILE_MOVES * target.vector_cycles * self._points / target.lanes
        flops = max(1.0, sum(flops for _, flops in tiles), 0.0 if tiles else self._scored * self._points)
        ideal = flops / (4 * target.lanes) * self._wide
        products = sum(self._product_cycles(each, flops, blocks) for each, flops in tiles)
        cycles = products + scored + moved + self._row_cycles(blocks) + self._ending + self._fetching
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
        )

    @cached_property
    def _bytes(self) -> float:
        return float(region_bytes(self.view.region))

    # --- products ---

    def _whole(self, each: Contraction, blocks: StreamBlocks, width: int) -> float:
        """The multiply-adds of all register tiles, padding included, as additions-worth."""
        if blocks.dot and each is self.view.scores:
            return flops_of(each)
        rows, columns = -(-each.m // blocks.mr) * blocks.mr, -(-each.n // width) * width
        return 2.0 * each.repeats * rows * columns * each.depth

    def _product_cycles(self, each: Contraction, flops: float, blocks: StreamBlocks) -> float:
        """Cycles of the register tiles, and of laying their sums down once per block of terms."""
        scores = each is self.view.scores
        if scores and blocks.dot:
            loads = max(1.0, (blocks.mr + blocks.nr) / (blocks.mr * blocks.nr))
            return flops / (4 * self.target.lanes) * self._wide * loads + self._points * _DOT_CYCLES
        width = blocks.nr if scores else blocks.nv
        vectors = width // self.target.lanes * self._wide
        multiplies = blocks.mr * vectors
        inner = max(multiplies, blocks.mr + vectors, 8) / multiplies
        depth = each.depth if scores else blocks.bc
        return flops / (4 * self.target.lanes) * self._wide * inner * (1 + (1 if scores else 2) / max(depth, 1))

    @property
    def _wide(self) -> int:
        return registers_per_vector(self.view.lead)

    # --- scores ---

    @property
    def _points(self) -> int:
        view = self.view
        return view.repeats * view.m * view.terms

    @cached_property
    def _scored(self) -> float:
        """Additions-worth of one score: the ops on it, its maximum, difference, exponential, and sums of rows."""
        view = self.view
        return self._below(view.roles.score) + score_weight(view.fn, view.kind, self.target) + len(view.row_sums)

    def _below(self, value: str) -> float:
        """What computing a value takes, but for the contraction and its operands."""
        ops = {let.name: let.op for let in self.view.region.body if let.name != self.view.roles.contraction}
        return sum(weight(ops[name], self.target) for name in behind(ops, value) if name in ops)

    @cached_property
    def _fetching(self) -> float:
        """Cycles in which scores that lie in memory come from there: no product hides the pass that reads them."""
        target = self.target
        if self.view.scores is not None:
            return 0.0
        item = DTYPES[self.view.kind].bytes
        moved = self._points * item
        bandwidth = target.cache_bandwidth if moved <= target.last_level_bytes / 2 else target.bandwidth
        return moved / bandwidth * 1e9 / target.cycle_ns * target.units

    def _row_cycles(self, blocks: StreamBlocks) -> float:
        view = self.view
        times = -(-view.terms // blocks.bc)
        return view.repeats * view.m * times * _ROW_CYCLES

    # --- what is moved ---

    def _packing(self, blocks: StreamBlocks) -> float:
        """Cycles of packing, all tasks together: queries once, keys and values once per block of rows."""
        times = -(-self.view.m // blocks.bm)
        queries, keys = (0.0, 0.0) if blocks.dot else self._packed_scores
        values = 0.0 if self.view.m <= blocks.mr else self._packed_values[0]
        return queries + (keys + values + self._packed_values[1]) * times

    @cached_property
    def _packed_scores(self) -> tuple[float, float]:
        """Cycles of packing all queries, and all keys."""
        scores = self.view.scores
        return (self._pack(scores, 1 - scores.vector), self._pack(scores, scores.vector)) if scores else (0.0, 0.0)

    @cached_property
    def _packed_values(self) -> tuple[float, float]:
        """Cycles of packing all values that few rows read as they lie, and all others."""
        cycles = [(lies_well(each), self._pack(each, 1)) for each in self.view.products]
        return sum(cost for well, cost in cycles if well), sum(cost for well, cost in cycles if not well)

    def _pack(self, each: Contraction, side: int) -> float:
        columns = side == each.vector
        group = each.columns if columns else each.rows
        elements = each.repeats * each.depth * (each.n if columns else each.m)
        turned = columns and lanes_along_k(each, side, group, self.target.lanes)
        run, _ = each.run(side, each.k if turned else group)
        filled = max(1, min(each.extent(run), self.target.lanes))
        return elements * _PACK * (2 if turned else 1) / filled

    @cached_property
    def _ending(self) -> float:
        """Cycles of the ops on the sums, and of the stores."""
        view, lanes = self.view, self.target.lanes
        scored = {view.roles.score, view.roles.contraction, *view.roles.members}
        points = view.repeats * view.m * max(view.n, 1)
        ops = {let.name: let.op for let in view.region.body}
        after, total = set(view.roles.members), 0.0
        for name, op in ops.items():
            if name not in scored and any(isinstance(each, Operand) and each.value in after for each in op.inputs):
                after.add(name)
                total += weight(op, self.target)
        return points * (total / ADDITIONS_PER_CYCLE + _STORE) / lanes

    def _tasks(self, blocks: StreamBlocks) -> int:
        return max(1, self.view.repeats * -(-self.view.m // blocks.bm))


def lies_well(each: Contraction) -> bool:
    """Whether neighbouring columns of a product's values are neighbours in memory."""
    run, step = each.run(1, each.columns)
    return run == each.columns and step == 1


def is_parallel(view: StreamView, blocks: StreamBlocks, target: Target) -> bool:
    """Whether threads share the tasks."""
    several = view.repeats * -(-view.m // blocks.bm) > 1
    flops = sum(flops_of(each) for each in (view.scores, view.lead) if each)
    return target.units > 1 and several and flops >= SMALL_FLOPS


def resident_bytes(view: StreamView, blocks: StreamBlocks) -> int:
    """What a task goes through again and again: a tile of scores, the packed keys and values of a block."""
    elements = blocks.br * blocks.score_stride
    if view.scores is not None and not blocks.dot:
        elements += blocks.width * view.scores.depth
    elements += sum(blocks.bc * blocks.sum_stride(each.n) for each in view.products)
    return elements * DTYPES[view.kind].bytes


def row_bytes(view: StreamView, blocks: StreamBlocks) -> int:
    """What a task keeps of its rows, queries and sums: passed through once per block of terms, they may lie in a
    farther cache (540 to 2052 rows of 0.5 to 4 MiB take the same time beside a second level of 1 MiB)."""
    depth = view.scores.depth if view.scores is not None and not blocks.dot else 0
    elements = blocks.bm * (depth + sum(blocks.sum_stride(each.n) for each in view.products))
    return elements * DTYPES[view.kind].bytes
