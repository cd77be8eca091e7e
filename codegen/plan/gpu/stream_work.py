"""The work of a GPU plan of streams in tiles: the inputs of seed 000 §11.

A stage of a block takes the products of its tile of scores, its shared-memory traffic, and the arithmetic per score
(ops, maximum, exponential, sum). Products of other warps hide part of the arithmetic. Scores never leave registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tiling import pieces_of, tiles_of
from codegen.plan.gpu.contraction_work import CONVERSION, MMA_SYNC
from codegen.plan.gpu.latencies import FIRST_PRODUCT, TURN, ring_clocks
from codegen.plan.gpu.operand_read import bits_read
from codegen.plan.gpu.score_scale import score_scale
from codegen.plan.gpu.stream_parts import joining_cycles, joining_registers, stream_part_bytes
from codegen.plan.gpu.stream_shared import stream_shared
from codegen.plan.gpu.stream_tiling import stream_products, stream_turns
from codegen.plan.op_weights import score_weight, weight
from codegen.plan.stream_mask import LastSeen, last_seen
from codegen.plan.stream_view import StreamView
from ir.dtype import DTYPES
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.occupancy import blocks_per_unit
from ir.plan.gpu import ContractionTile, Staging, StreamTile
from ir.pricer import Work
from ir.region.region import Op, behind
from ir.region.work import cold_bytes, region_bytes
from ir.target import Target

_SCHEDULERS = 4
"""Schedulers of an SM: with fewer warps, some have no work."""
_OVERLAP = 0.35
"""The share of the shorter parts of a stage that does not run beside the longest part: in a warp, products, scores and
the next products wait for each other."""
_ELEMENT = 12.0
"""Instructions to find, read, convert and store one element."""
_COARSE_WEIGHT = 3.5
"""Instructions of a weight of 16 bits: a maximum, a multiply-add, an exponential, and half of packing two."""
_MMA_FLOPS, _MATRIX_BYTES = 2 * 16 * 8 * 16, 512
"""FLOPs of an mma of 16 bits; bytes that a warp loads with one ldmatrix."""
_ROUNDING = 2.0
"""Instructions to round a word to tf32."""
_WORD_LOAD = 0.75
"""Instructions to load a word of values by itself, beyond its quarter of an ldmatrix, which loads four words a lane."""
_ADDRESSES = 40
"""Registers for indices, addresses and rows, as ptxas reports for the template."""
_IN_TIME, _EARLY = 24, 12
"""Registers for fragments of values that are loaded when they are used, and for values that ptxas loads early
anyhow."""
_PIECE, _COMPUTED = 1.0, 3.0
"""Registers for a copy's address, and for an element that is computed."""


def registers_of(view: StreamView, tile: StreamTile) -> int:
    """An estimate of a thread's registers: for a turn, or to join the parts of several blocks."""
    return max(_turn_registers(view, tile), joining_registers(view, tile) + _ADDRESSES)


def _turn_registers(view: StreamView, tile: StreamTile) -> int:
    """Registers of a turn: accumulators and fragments of both products, and addresses."""
    pieces = sum(_piece_registers(operand_tile, staged) for operand_tile, staged in _ring_operands(view, tile))
    words = DTYPES[view.kind].bytes // 4
    scores = tile.scores
    if scores.thread is not None:
        vector = 16 // DTYPES[view.kind].bytes
        rows, columns = scores.thread
        sums = sum(math.prod(product_tile.thread or ()) for product_tile in tile.sums)
        widest = max(columns, *((product_tile.thread or (1, 1))[1] for product_tile in tile.sums))
        return int(words * (rows * columns + sums + vector * (rows + widest)) + pieces + _ADDRESSES)
    mi, steps = scores.warp_m // 16, scores.steps if view.scores is not None else 1
    sums = sum(4 * mi * (product_tile.bn // 8) for product_tile in tile.sums) if view.products else 0
    weights = mi * scores.bn // (2 if tile.tf32 else 4) if view.products else 0
    loaded = 2 if tile.ahead else 1
    queries = 4 * mi * (steps if tile.held else min(steps, loaded)) if view.scores is not None else 0
    keys = min(steps, loaded) * scores.bn // 4
    values = max(loaded * product_tile.bn // 4 for product_tile in tile.sums) if view.products else 0
    early = 0
    if not tile.ahead:
        early, values = _EARLY + mi * scores.bn // 8, min(values, _IN_TIME)
    at_scores = queries + keys + mi * scores.bn // 2
    at_sums = (queries if tile.held else 0) + weights + values
    return int(sums + max(at_scores, at_sums) + early + pieces + _ADDRESSES)


def _ring_operands(view: StreamView, tile: StreamTile) -> list[tuple[ContractionTile, Staging]]:
    """The operands that move to shared memory every turn, with their tiles."""
    keys = [(tile.scores, tile.scores.rhs)] if view.scores is not None else []
    return keys + ([(product_tile, product_tile.rhs) for product_tile in tile.sums] if view.products else [])


def _ring_products(view: StreamView) -> list[Contraction]:
    """The products of the operands of `_ring_operands`, in the same order."""
    return [*([view.scores] if view.scores is not None else []), *view.products]


def _piece_registers(tile: ContractionTile, staged: Staging) -> float:
    return (_COMPUTED if not staged.copied else _PIECE) * pieces_of(tile, staged)


@dataclass(frozen=True, eq=False)
class GpuStreamWork:
    """The work of every plan of one region's streams on one machine."""

    view: StreamView
    target: Target

    def of(self, tile: StreamTile) -> Work:
        """The work of a plan with these tiles."""
        view, target = self.view, self.target
        lead = tile.scores if view.scores is not None else tile.lead
        dtype = lead.multiplied if tile.tensor_cores else view.kind
        peak = target.peak_flops.get(dtype, target.peak_flops["fp32"])
        tiles = math.prod(tiles_of(stream_products(view)[0], tile.lead))
        blocks, turns = tiles * tile.split, self._turns(tile)
        stage = self._flops(tile)
        shared, registers = stream_shared(view, tile).nbytes, registers_of(view, tile)
        resident = min(self.resident(tile), max(1, -(-blocks // target.units)))
        per_cycle = target.per_cycle(dtype)
        reached = MMA_SYNC.get(target.arch, 1.0) if tile.tensor_cores else 1.0
        turn = self._stage(tile, stage / (per_cycle * reached), resident)
        spent = ring_clocks(turns, tile.stages, turn, resident) + self._end_cycles(tile, resident)
        spent += joining_cycles(view, tile) * -(-tiles // target.units) / -(-blocks // target.units)
        efficiency = min(1.0, max(0.001, turns * stage / per_cycle / spent))
        flops = max(1.0, blocks * turns * stage)
        return Work(
            flops=flops,
            bytes=float(self._bytes),
            cold_bytes=float(cold_bytes(self.view.region)),
            compute_dtype=dtype,
            occupancy=blocks / (-(-blocks // target.units) * target.units),
            efficiency=efficiency,
            reread=self._reread(tile, blocks, turns, flops / (peak * efficiency)),
            scratch=shared,
            block_threads=tile.threads,
            thread_registers=registers,
            independent=4.0,
        )

    def resident(self, tile: StreamTile) -> int:
        """Blocks that an SM has room for."""
        registers, shared = registers_of(self.view, tile), stream_shared(self.view, tile).nbytes
        return max(1, blocks_per_unit(self.target, tile.threads, registers, shared))

    def busy_warps(self, tile: StreamTile) -> int:
        """Warps of a block that have a row."""
        return -(-min(tile.bm, self.view.m) // tile.warp_m)

    @cached_property
    def _bound(self) -> LastSeen | None:
        """The bound of the terms that rows see."""
        return last_seen(self.view)

    def _turns(self, tile: StreamTile) -> float:
        """Turns of a block: the mean over tiles; at most, where blocks share terms."""
        if tile.split == 1 and tile.stops and self._bound is not None:
            return self._bound.mean_turns(self.view, tile.bm, tile.terms)
        return float(stream_turns(self.view, tile)[1])

    def _flops(self, tile: StreamTile) -> float:
        """FLOPs of a stage of a block, padding included."""
        depth = tile.depth if self.view.scores is not None else 0
        return 2.0 * tile.bm * tile.terms * max(1, depth + self._columns(tile))

    def _columns(self, tile: StreamTile) -> int:
        """Columns of a block's products, whose sums every turn rescales."""
        return sum(product_tile.bn for product_tile in tile.sums) if self.view.products else 0

    def _product_slots(self, tile: StreamTile) -> float:
        """Instructions of threads for the products of a stage: mma, and loads of fragments; with tf32 also instructions
        that round the words of keys, values, and queries that are not held, and values are loaded word by word."""
        if not tile.tensor_cores:
            return 0.0
        slots = self._flops(tile) / _MMA_FLOPS + self._traffic(tile) / _MATRIX_BYTES
        if tile.tf32:
            warps = tile.threads // WARP_LANES
            keys = tile.terms * tile.depth if self.view.scores is not None else 0
            values = tile.terms * self._columns(tile)
            queries = 0 if tile.held or self.view.scores is None else tile.warp_m * tile.depth
            rounded = _ROUNDING * (keys + values + queries)
            slots += self._flops(tile) / _MMA_FLOPS + warps * (rounded + _WORD_LOAD * values) / WARP_LANES
        return WARP_LANES * slots

    def _stage(self, tile: StreamTile, products: float, resident: int) -> float:
        """Cycles of a stage of one block, with `resident` blocks on an SM."""
        if self.view.scores is None and not self.view.products:
            products = 0.0
        slots = tile.bm * (tile.terms * self._slots_per_score(tile) + self._columns(tile)) + self._product_slots(tile)
        scored = slots / self.target.issue
        filling = 0.0
        for product, (own, staged) in zip(_ring_products(self.view), _ring_operands(self.view, tile), strict=True):
            if not staged.copied:
                element = _ELEMENT - (CONVERSION if bits_read(product, staged) is not None else 0.0)
                filling += own.extent(staged) * own.bk * element / self.target.issue
        warps = resident * self.busy_warps(tile)
        alone = max(1.0, _SCHEDULERS / warps)
        parts = (products * alone, scored * alone, self._traffic(tile) / self.target.shared_bytes)
        exposed = _OVERLAP * max(1.0, 8.0 / warps)
        return max(parts) + exposed * (sum(parts) - max(parts)) + filling + TURN / resident

    def _end_cycles(self, tile: StreamTile, resident: int) -> float:
        return FIRST_PRODUCT / resident + tile.bm * tile.bn * (_ELEMENT + self._epilogue_slots) / self.target.issue

    def _traffic(self, tile: StreamTile) -> float:
        """Bytes through shared memory for one stage."""
        warps, total = tile.threads // 32, 0.0
        for own, staged in _ring_operands(self.view, tile):
            size = DTYPES[staged.dtype].bytes
            total += own.extent(staged) * own.bk * size * (1 + warps * (1 if own.thread is None else own.lanes[0]))
        if self.view.scores is not None and not tile.held:
            scores = tile.scores
            total += (
                scores.bm * scores.bk * DTYPES[scores.lhs.dtype].bytes * (1 if scores.thread is None else tile.across)
            )
        return total

    def _reread(self, tile: StreamTile, blocks: int, turns: float, seconds: float) -> float:
        """Cycles to read keys and values from the second-level cache, beyond `seconds`."""
        operands = _ring_operands(self.view, tile)
        stage = sum(own.extent(staged) * own.bk * DTYPES[staged.dtype].bytes for own, staged in operands)
        moved = blocks * turns * stage
        if tile.split > 1:
            moved += 2 * blocks * stream_part_bytes(self.view, tile)
        if moved <= self._bytes:
            return 0.0
        return self.target.cycles_in(max(0.0, moved / self.target.cache_bandwidth - seconds))

    @cached_property
    def _bytes(self) -> int:
        return region_bytes(self.view.region)

    def _slots_per_score(self, tile: StreamTile) -> float:
        """Additions-worth per score: the ops on it, its maximum, difference and exponential, and the sums of rows."""
        view = self.view
        if not (tile.tensor_cores and view.products):
            own = score_weight(view.fn, view.kind, self.target) + len(view.row_sums) + len(view.products)
            return self._op_slots + own
        scale = score_scale(view)
        scaling = 0.0 if scale is None else weight(self._ops[scale.value], self.target)
        rounding = _ROUNDING if tile.tf32 else 0.0
        return self._op_slots - scaling + _COARSE_WEIGHT + rounding + len(view.row_sums)

    @cached_property
    def _ops(self) -> dict[str, Op]:
        return {let.name: let.op for let in self.view.region.body if let.name != self.view.roles.contraction}

    @cached_property
    def _op_slots(self) -> float:
        """Additions-worth of the ops on a score."""
        names = behind(self._ops, self.view.roles.score)
        return sum(weight(self._ops[name], self.target) for name in names if name in self._ops)

    @cached_property
    def _epilogue_slots(self) -> float:
        """Additions-worth of the epilogue per result."""
        after, total = set(self.view.roles.members), 0.0
        for let in self.view.region.body:
            if let.name not in after and not after.isdisjoint(let.op.reads):
                after.add(let.name)
                total += weight(let.op, self.target)
        return total
