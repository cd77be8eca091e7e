"""What work a GPU plan of a contraction makes: the inputs of seed 000 §11.

A stage of a block takes the longer of its products and of its traffic in shared memory, most of which run at the same
time; elements that are not copied as they lie take instructions of their own. Beside the stages stand the latency of
the first one, which other blocks of the SM fill, and the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tile import Tile, pieces_of, tiles_of, turns_of
from codegen.plan.gpu.operand_read import Staging
from codegen.plan.gpu.shared_tiles import shared_bytes
from codegen.plan.op_weights import weight
from ir.dtype import DTYPES
from ir.post_order import post_order
from ir.pricer import Work
from ir.region import Operand
from ir.target import Target

_MOST_REGISTERS = 255
"""Of a thread (CUDA C++ Programming Guide, compute capability 8.0)."""
_SHARED_BYTES = 128
"""Per cycle of an SM, to and from shared memory."""
_ISSUE = 128
"""Scalar instructions of threads per cycle of an SM: 4 warps."""
_OVERLAP = 0.12
"""Of the shorter of products and traffic, what does not hide behind the longer."""
_ELEMENT = 12.0
"""Instructions to find, read, convert and store one element."""
_COPY = 8.0
"""Instructions of one asynchronous copy."""
_FIRST, _SYNC = 900.0, 40.0
"""Cycles from a block's start to its first products, and of a wait and a barrier."""
_ADDRESSES = 32
"""Registers for indices and addresses, as ptxas reports for the template."""
_COMPUTED, _PADDED = 3.0, 2.0
"""Registers for an element and its address, and for where a padded read is in its image."""


def registers_of(view: Contraction, tile: Tile) -> int:
    """An estimate of a thread's registers: accumulators, fragments, addresses; and for each piece of an operand its
    address and conditions, or the element itself, which the compiler keeps between stages."""
    pieces = sum(_per_piece(view, each) * pieces_of(tile, each) for each in tile.stagings)
    if tile.thread is None:
        mi, ni = tile.warp_m // 16, tile.warp_n // 8
        halves = min(tile.bk // 16, 2)
        return int(4 * mi * ni + halves * (4 * mi + 2 * ni) + pieces + _ADDRESSES)
    rows, columns = tile.thread
    words = DTYPES[view.accumulator].bytes // 4
    vector = 16 // DTYPES[view.accumulator].bytes
    terms = vector if tile.lhs.along_k or tile.rhs.along_k else 1
    return int(words * (rows * columns + terms * (rows + columns)) + pieces + _ADDRESSES)


def most_registers(tile: Tile, target: Target) -> int:
    """What a thread may have."""
    return min(_MOST_REGISTERS, target.registers // tile.threads)


def _per_piece(view: Contraction, staged: Staging) -> float:
    """Registers for one piece of a thread: its element, its place in a padded image, or its address."""
    padded = any(read.map.guards for read in view.roles.reads[staged.side])
    return (_COMPUTED if staged.read is None else 1.0) + (_PADDED if padded else 0.0)


@dataclass(frozen=True, eq=False)
class ContractionWork:
    """Works of the plans of one contraction on one machine."""

    view: Contraction
    target: Target

    def of(self, tile: Tile) -> Work:
        """The work of a plan with these tiles."""
        view, target = self.view, self.target
        dtype = tile.lhs.dtype if tile.tensor_cores else view.accumulator
        peak = target.peak_flops.get(dtype, target.peak_flops["fp32"])
        products, rows, columns = tiles_of(view, tile)
        blocks, turns = products * rows * columns, turns_of(view, tile)
        flops = max(2.0 * blocks * turns * tile.bm * tile.bn * tile.bk, 1.0)
        shared, registers = shared_bytes(view, tile), registers_of(view, tile)
        resident = _resident(tile, shared, registers, target)
        efficiency = self._efficiency(tile, peak * target.cycle_ns * 1e-9 / target.units, resident)
        return Work(
            flops=flops,
            bytes=float(self._bytes),
            compute_dtype=dtype,
            occupancy=blocks / (-(-blocks // target.units) * target.units) if blocks else 1.0,
            efficiency=efficiency,
            reread=self._reread(tile, blocks * turns, flops / (peak * efficiency)),
            scratch=shared,
            block_threads=tile.threads,
            thread_registers=registers,
        )

    def _efficiency(self, tile: Tile, flops_per_cycle: float, resident: int) -> float:
        """The share of an SM's peak that its `resident` blocks reach together."""
        turns = turns_of(self.view, tile)
        if not turns:
            return 1.0
        ideal = 2.0 * tile.bm * tile.bn * tile.bk / flops_per_cycle
        traffic = _traffic(tile) / _SHARED_BYTES
        filling = sum(self._filling(tile, each) for each in tile.stagings)
        stage = max(ideal, traffic) + _OVERLAP * min(ideal, traffic) + filling + _SYNC / resident
        ends = _FIRST / resident + tile.bm * tile.bn * self._after / _ISSUE
        return max(0.001, turns * ideal / (turns * stage + ends))

    def _filling(self, tile: Tile, staged: Staging) -> float:
        """Cycles in which the elements of a stage are computed one by one, or copied in pieces of less than 16
        bytes."""
        elements = tile.extent(staged) * tile.bk
        if staged.read is not None:
            return _COPY * (elements / staged.width - elements * DTYPES[staged.dtype].bytes / 16) / _ISSUE
        return elements * (_ELEMENT + self._below[staged.side]) / _ISSUE

    def _reread(self, tile: Tile, stages: int, seconds: float) -> float:
        """Cycles of reading operands from the second-level cache, beyond those of `seconds` in which products run."""
        each = tile.bk * sum(tile.extent(staged) * DTYPES[staged.dtype].bytes for staged in tile.stagings)
        if stages * each <= self._bytes:
            return 0.0
        excess = stages * each / self.target.cache_bandwidth - seconds
        return max(0.0, excess) * 1e9 * self.target.units / self.target.cycle_ns

    @cached_property
    def _below(self) -> tuple[float, float]:
        """Additions-worth of computing an element of each operand."""
        ops = {let.name: let.op for let in self.view.region.body}

        def inputs(name: str) -> list[str]:
            return [each.value for each in ops[name].inputs if isinstance(each, Operand) and each.value in ops]

        found = [0.0, 0.0]
        for side in (0, 1):
            value = self.view.operand(side).value
            values = post_order([value] if value in ops else [], inputs)
            found[side] = sum(weight(ops[name], self.target) for name in values)
        return found[0], found[1]

    @cached_property
    def _after(self) -> float:
        """Instructions for each sum after it is complete, the store among them."""
        after, total = {self.view.name}, _ELEMENT
        for let in self.view.region.body:
            if any(isinstance(each, Operand) and each.value in after for each in let.op.inputs):
                after.add(let.name)
                total += weight(let.op, self.target)
        return total

    @cached_property
    def _bytes(self) -> int:
        return sum(each.memref.nbytes for each in self.view.region.buffers)


def _resident(tile: Tile, shared: int, registers: int, target: Target) -> int:
    """Blocks that share an SM."""
    by_registers = target.registers // (tile.threads * registers)
    return max(1, min(by_registers, target.l1_bytes // max(1, shared), target.blocks))


def _traffic(tile: Tile) -> float:
    """Bytes through shared memory for one stage: into registers of every thread, and into the ring once."""
    size = DTYPES[tile.lhs.dtype].bytes * tile.bk
    if tile.thread is None:
        rows, columns = tile.warps
        return size * (tile.bm * (columns + 1) + tile.bn * (rows + 1))
    return size * (tile.threads * sum(tile.thread) + tile.bm + tile.bn)
