"""The work of a GPU plan of a contraction: the inputs of seed 000 §11.

A stage of a block takes the time of its products or of its shared-memory traffic, whichever is longer, since most of
both runs at the same time. Elements that are not copied take further instructions. A block also takes the latency of
its first stage, during which other blocks of the SM run, and the epilogue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_shared import shared_bytes
from codegen.plan.gpu.contraction_tiling import pieces_of, tiles_of, turns_of_block
from codegen.plan.gpu.latencies import FIRST_PRODUCT, TURN_ALONE, ring_clocks
from codegen.plan.gpu.operand_read import bits_read, own_digits
from codegen.plan.gpu.split_k import meeting_cycles, part_bytes
from codegen.plan.op_weights import weight
from ir.dtype import DTYPES
from ir.kernel.gpu.limits import HIDING_THREADS, WARPGROUP
from ir.kernel.gpu.occupancy import blocks_per_unit
from ir.plan.gpu import ContractionTile, Staging
from ir.pricer import Work
from ir.region.region import behind
from ir.region.work import cold_bytes
from ir.target import Target

_OVERLAP = 0.3
"""The share of the shorter of products and traffic that does not run beside the longer: with `TURN_ALONE` it fits the
times of 120 plans of four products and convolutions on an H100 best."""
_ELEMENT, _SPLIT, _PADDED_AXIS = 12.0, 3.0, 7.0
"""Instructions to read, convert and store one element; further ones for each digit that a number of a row or of a term
is split into, beyond the first; and for each bound of padding that is tested. In SASS (CUDA 13.0, sm_80) an element of
an odd matrix takes 10 with a conversion and 8 without, one of a convolution NCHW 3×3 24, or 38 with padding; the
estimates are 12, 10, 24 and 38."""
CONVERSION = 2.0
"""Instructions to convert an element to fp32 and back, which elements that move as bits do not take."""
_ROUNDED = 2.0
"""Instructions to round a word to tf32: half of the last place is added; tensor cores cut off the rest."""
_COPY = 8.0
"""Instructions of one asynchronous copy."""
_MOST_INDEPENDENT = 4
"""Products of one warp that run at once, at most: so many hide their own latency (`HIDING_THREADS`)."""
MMA_SYNC = {"sm90": 0.64, "sm90a": 0.64, "sm100": 0.25}
"""The share of the tensor cores' peak that mma.sync reaches, where only wgmma or tcgen05 reaches the peak: 634 of 989
TFLOP/s on an H100, from registers (`bench/device/ceilings.py`); of sm_100 it is assumed, the rate of an A100's SM."""
_WGMMA = 0.8
"""The share of the tensor cores' peak that wgmma is taken to reach: 798 of 989 TFLOP/s are what cuBLAS has at 8192³ on
an H100. No plan with warpgroups has been timed."""
_MMA_FRAGMENTS, _FMA_FRAGMENTS = 0.75, 0.5
"""The share of the fragments of a step that registers hold at one time: the compiler loads the rest later."""
_MMA_ADDRESSES, _FMA_ADDRESSES = 28, 40
"""Registers for indices and addresses."""
_COMPUTED, _PADDED, _PARTS = 3.0, 2.0, 24
"""Registers for a computed element and its address, for the position of a padded read in its image, and to add up the
parts of several blocks. These figures, and the fragments and addresses above, fit what ptxas (CUDA 13.0, sm_80) reports
for 241 kernels, with a mean error of 11 registers."""


def registers_of(view: Contraction, tile: ContractionTile) -> int:
    """An estimate of a thread's registers: accumulators, fragments and addresses. Where there are several stages, the
    compiler also keeps the address and conditions of every piece of an operand, or the element, between stages."""
    pieces = float(_PARTS if tile.split > 1 else 0)
    if turns_of_block(view, tile) > 1:
        pieces = max(pieces, sum(_per_piece(view, staging) * pieces_of(tile, staging) for staging in tile.stagings))
    if tile.thread is None:
        mi, ni = tile.warp_m // 16, tile.warp_n // 8
        fragments = 0 if tile.warpgroups else _MMA_FRAGMENTS * min(tile.steps, 2) * (4 * mi + 2 * ni)
        return int(4 * mi * ni + fragments + pieces + _MMA_ADDRESSES)
    rows, columns = tile.thread
    words = DTYPES[view.accumulator].bytes // 4
    vector = 16 // DTYPES[view.accumulator].bytes
    terms = vector if tile.lhs.along_k or tile.rhs.along_k else 1
    fragments = _FMA_FRAGMENTS * terms * (rows + columns)
    return int(words * (rows * columns + fragments) + pieces + _FMA_ADDRESSES)


def _per_piece(view: Contraction, staged: Staging) -> float:
    """Registers for one piece of a thread: address or element, and position in a padded image."""
    padded = any(read.map.guards for read in view.roles.reads[staged.side])
    return (_COMPUTED if not staged.copied else 1.0) + (_PADDED if padded else 0.0)


@dataclass(frozen=True, eq=False)
class GpuContractionWork:
    """The work of every plan of one contraction on one machine."""

    view: Contraction
    target: Target

    def of(self, tile: ContractionTile) -> Work:
        """The work of a plan with these tiles."""
        view, target = self.view, self.target
        dtype = tile.multiplied if tile.tensor_cores else view.accumulator
        peak = target.peak_flops.get(dtype, target.peak_flops["fp32"])
        products, rows, columns = tiles_of(view, tile)
        blocks, turns = products * rows * columns * tile.split, turns_of_block(view, tile)
        flops = max(2.0 * blocks * turns * tile.bm * tile.bn * tile.bk, 1.0)
        shared, registers = shared_bytes(view, tile), registers_of(view, tile)
        most = _resident(tile, shared, registers, target)
        resident = min(most, -(-max(blocks, 1) // target.units))
        idle = _hidden_share(tile, most) / _hidden_share(tile, resident)
        efficiency = self._efficiency(tile, target.per_cycle(dtype), resident, idle)
        return Work(
            flops=flops,
            bytes=float(self._bytes),
            cold_bytes=float(cold_bytes(self.view.region)),
            compute_dtype=dtype,
            occupancy=blocks / (-(-blocks // target.units) * target.units) if blocks else 1.0,
            efficiency=efficiency,
            reread=self._reread(tile, blocks * turns, flops / (peak * efficiency)),
            scratch=shared,
            block_threads=tile.threads,
            thread_registers=registers,
            independent=_independent(tile),
        )

    def _efficiency(self, tile: ContractionTile, flops_per_cycle: float, resident: int, idle: float) -> float:
        """The share of an SM's peak that its `resident` blocks reach together. `idle`: factor by which products take
        longer, because a full SM would hide more of their latency."""
        turns = turns_of_block(self.view, tile)
        if not turns:
            return 1.0
        ideal = 2.0 * tile.bm * tile.bn * tile.bk / flops_per_cycle
        products = idle * ideal / _tensor_share(tile, self.target)
        traffic = max(_traffic(tile) / self.target.shared_bytes, _tf32_slots(tile) / self.target.issue)
        filling = sum(self._filling(tile, staging) for staging in tile.stagings)
        warps = max(1.0, resident * tile.threads / self.target.issue)
        alone = TURN_ALONE[tile.loads_across_turns] / warps * (1 - 1 / turns)  # the first turn's is in FIRST_PRODUCT
        beside = _OVERLAP * min(products, traffic)
        if tile.warpgroups:  # the products of the turn before run meanwhile, and read shared memory by themselves
            alone = beside = 0.0
        stage = max(products, traffic) + beside + filling + alone
        ends = FIRST_PRODUCT / resident + tile.bm * tile.bn * self._epilogue_slots / self.target.issue
        ends += meeting_cycles(self.view, tile)
        return max(0.001, turns * ideal / (ring_clocks(turns, tile.stages - tile.lag, stage, resident) + ends))

    def _filling(self, tile: ContractionTile, staged: Staging) -> float:
        """Cycles to compute the elements of a stage one by one, or to copy them in pieces of less than 16 bytes."""
        elements = tile.extent(staged) * tile.bk
        if staged.copied:
            return _COPY * (elements / staged.width - elements * DTYPES[staged.dtype].bytes / 16) / self.target.issue
        slots = self._element_slots[staged.side] + self._prologue_weights[staged.side]
        if bits_read(self.view, staged) is not None:
            slots -= CONVERSION
        return elements * slots / self.target.issue

    def _reread(self, tile: ContractionTile, stages: int, seconds: float) -> float:
        """Cycles to read operands from the second-level cache, beyond the `seconds` in which products run."""
        stage = tile.bk * sum(tile.extent(staged) * DTYPES[staged.dtype].bytes for staged in tile.stagings)
        moved = stages * stage + 2 * part_bytes(self.view, tile)
        if moved <= self._bytes:
            return 0.0
        return self.target.cycles_in(max(0.0, moved / self.target.cache_bandwidth - seconds))

    @cached_property
    def _element_slots(self) -> tuple[float, float]:
        """Per operand: instructions to find, read, convert and store an element that is not copied."""
        lhs, rhs = (self._slots_to_find(side) + _ELEMENT for side in (0, 1))
        return lhs, rhs

    def _slots_to_find(self, side: int) -> float:
        """Instructions to split the numbers of an element's row and term into digits, and to test its padding."""
        view = self.view
        splits = sum(max(0, len(group) - 1) for group in (own_digits(view, side), view.k))
        padded = {bound for read in view.roles.reads[side] for guard in read.map.guards for bound in guard.bounds}
        return _SPLIT * splits + _PADDED_AXIS * len(padded)

    @cached_property
    def _prologue_weights(self) -> tuple[float, float]:
        """Per operand: additions-worth of computing an element."""
        ops = {let.name: let.op for let in self.view.region.body}
        values = (behind(ops, self.view.operand(side).value) for side in (0, 1))
        lhs, rhs = (sum(weight(ops[name], self.target) for name in value if name in ops) for value in values)
        return lhs, rhs

    @cached_property
    def _epilogue_slots(self) -> float:
        """Instructions per sum of the epilogue and the store."""
        after, total = {self.view.name}, _ELEMENT
        for let in self.view.region.body:
            if not after.isdisjoint(let.op.reads):
                after.add(let.name)
                total += weight(let.op, self.target)
        return total

    @cached_property
    def _bytes(self) -> int:
        return sum(buffer.memref.nbytes for buffer in self.view.region.buffers)


def _tensor_share(tile: ContractionTile, target: Target) -> float:
    """The share of the peak that the instruction of a tile's products reaches."""
    if not tile.tensor_cores:
        return 1.0
    return _WGMMA if tile.warpgroups else MMA_SYNC.get(target.arch, 1.0)


def _resident(tile: ContractionTile, shared: int, registers: int, target: Target) -> int:
    """Blocks that share an SM."""
    return max(1, blocks_per_unit(target, tile.threads, registers, shared))


def _hidden_share(tile: ContractionTile, blocks: int) -> float:
    """The share of the latency of products that so many blocks on an SM hide."""
    return min(1.0, blocks * tile.threads * _independent(tile) / HIDING_THREADS)


def _independent(tile: ContractionTile) -> float:
    """Products of a thread that run at once, because no one waits for another."""
    if tile.thread is not None:
        return float(min(math.prod(tile.thread), _MOST_INDEPENDENT))
    return float(min((tile.warp_m // 16) * (tile.warp_n // 8), _MOST_INDEPENDENT))


def _tf32_slots(tile: ContractionTile) -> float:
    """Instructions of threads for the products of one stage with tf32: mma, loads and rounding. 0 for 16-bit operands,
    whose instructions take less time than their loads or products."""
    if not tile.tf32:
        return 0.0
    mi, ni = tile.warp_m // 16, tile.warp_n // 8
    words = {True: 4 * mi, False: 2 * ni}
    loads = sum(words[staged is tile.lhs] / (4 if staged.along_k else 1) for staged in tile.stagings)
    return tile.threads * tile.steps * (mi * ni + _ROUNDED * sum(words.values()) + loads)


def _traffic(tile: ContractionTile) -> float:
    """Bytes through shared memory for one stage: into registers of every thread, or into the products of every
    warpgroup, and into the ring once."""
    size = DTYPES[tile.lhs.dtype].bytes * tile.bk
    if tile.thread is None:
        rows, columns = tile.warps
        rows //= WARPGROUP if tile.warpgroups else 1
        return size * (tile.bm * (columns + 1) + tile.bn * (rows + 1))
    return size * (tile.threads * sum(tile.thread) + tile.bm + tile.bn)
