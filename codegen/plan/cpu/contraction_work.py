"""The work that a plan of a contraction makes the machine do.

The model counts cycles of one core: multiply-adds against loads, what is computed before and after them, packing,
stores; traffic beyond the caches is the tensors' own size, and that of operands which no cache keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from codegen.plan.contraction_view import Contraction, fused_step, lanes_along_k, rows_are_neighbours
from codegen.plan.cpu.chains import chain_waits
from codegen.plan.cpu.contraction_blocks import Blocks
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, weight
from ir.axis_facts import offset
from ir.axis_map import AxisMap, compose, support
from ir.dtype import DTYPES
from ir.post_order import post_order
from ir.pricer import Work
from ir.region import Op, Operand
from ir.target import Target

SMALL_FLOPS = 200_000
"""Below this a fork and join cost more than a second core saves."""

_PORTS = 2  # multiply-adds and loads per cycle, each
_LATENCY = 4
_DOT_LATENCY = 2  # the sums of other rows overlap with the end of one
_UNIT_PACK, _NARROW_PACK, _LANE_PACK, _STORE = 5.0, 3.0, 1.5, 3.0
_TESTED = 6.0
"""Cycles of finding out which lanes of a vector lie inside the image, where padding is no copy of zeros."""
_TURN, _CUT_TURN = 6.0, 36.0
"""Cycles of finishing a vector of rows rather than of columns; and one that the tile cuts short."""
_LINE_BYTES = 64
_FOLD = 3.5
"""Cycles to reduce the lanes of one sum of a dot product."""
_FORWARD = 20.0
"""Cycles of a vector load from where single numbers have just been stored."""


def flops_of(view: Contraction) -> float:
    """Of the multiply-adds that the contraction asks for."""
    return 2.0 * view.repeats * view.m * view.n * view.depth


def registers_per_vector(view: Contraction) -> int:
    """Machine registers that hold `lanes` numbers."""
    return max(1, DTYPES[view.accumulator].bytes // 4)


def tasks_of(view: Contraction, blocks: Blocks) -> int:
    return max(view.repeats * -(-view.m // blocks.bm) * -(-view.n // blocks.bn), 1)


def is_parallel(view: Contraction, blocks: Blocks, target: Target) -> bool:
    """Whether threads share the tasks."""
    return flops_of(view) >= SMALL_FLOPS and tasks_of(view, blocks) > 1 and target.units > 1


def is_packed(view: Contraction, blocks: Blocks, side: int) -> bool:
    """Whether the kernel packs an operand: one that is used once per element is read where it lies, unless it is padded
    and each element would be tested by itself."""
    if blocks.dot or view.is_constant(side):
        return False
    if side == view.vector:
        return view.m > blocks.mr or _run_step(view, side) not in (0, 1)
    return view.n > blocks.nr or view.m % blocks.mr != 0 or any(read.map.guards for read in view.roles.reads[side])


@lru_cache(maxsize=64)
def _run_step(view: Contraction, side: int) -> int | None:
    group = view.columns if side == view.vector else view.rows
    run, step = view.run(side, group)
    return step if run == group else None


@dataclass(frozen=True, eq=False)
class ContractionWork:
    """Works of the plans of one contraction on one machine."""

    view: Contraction
    target: Target

    def of(self, blocks: Blocks) -> Work:
        """The work of a plan that cuts the contraction so."""
        view, target = self.view, self.target
        tasks = tasks_of(view, blocks)
        tiles_m, tiles_n = -(-view.m // blocks.mr), -(-view.n // blocks.nr)
        whole = 2.0 * view.repeats * tiles_m * blocks.mr * tiles_n * blocks.nr * view.depth
        flops = max(flops_of(view) if blocks.dot else whole, 1.0)
        ideal = flops / (2 * target.lanes * _PORTS) * registers_per_vector(view)
        once, again = self._prologue(blocks)
        stored, turned = self._stores(blocks)
        other = (once + again + self._after(blocks)) / (ADDITIONS_PER_CYCLE * target.lanes)
        parallel = is_parallel(view, blocks, target)
        units = min(target.units, tasks) if parallel else 1
        each = -(-blocks.bm // blocks.mr) * -(-blocks.bn // blocks.nr)
        tiles = max(view.repeats * tiles_m * tiles_n, 1)
        longest = -(-tasks // units) * each if units > 1 else tiles
        cycles = ideal * self._inner_cycles(blocks) + self._folds(blocks) + stored + other
        return Work(
            flops=flops,
            bytes=float(self._sizes[0]),
            compute_dtype=view.accumulator,
            occupancy=min(1.0, tiles / (longest * target.units)),
            efficiency=min(1.0, max(0.01, ideal * (1 + again / flops) / cycles)),
            recomputed=again,
            reread=self._reread(blocks),
            layout=self._packing(blocks) + turned + self._sums(blocks) * self._apart,
            scratch=self._scratch(blocks),
            parallel=parallel,
        )

    # --- the multiply-adds ---

    def _inner_cycles(self, blocks: Blocks) -> float:
        """Cycles of the micro-kernel for each cycle that its multiply-adds need at the least."""
        view, target = self.view, self.target
        wide = registers_per_vector(view)
        if blocks.dot:
            multiplies = blocks.mr * blocks.nr * wide
            return max(multiplies, (blocks.mr + blocks.nr) * wide, _DOT_LATENCY * _PORTS) / multiplies
        vectors = blocks.nr // target.lanes * wide
        multiplies = blocks.mr * vectors
        panel = blocks.bk * blocks.nr * DTYPES[view.accumulator].bytes
        far = 2 * vectors * _PORTS if panel > target.l1_bytes else 0  # half a vector per cycle from the second level
        return max(multiplies, blocks.mr + vectors, far, _LATENCY * _PORTS) / multiplies

    # --- what is computed before and after them ---

    @cached_property
    def _operands(self) -> tuple[float, float]:
        """Additions-worth of what computes one element of each operand; 0 where that is done beforehand."""
        found = [0.0 if self.view.is_constant(side) else self._below(self.view.operand(side).value) for side in (0, 1)]
        return found[0], found[1]

    @cached_property
    def _epilogue(self) -> tuple[float, float]:
        """Additions-worth of what is applied to one vector of sums, and of what is made once for the vectors of a row:
        it does not change along them."""
        inside = {name for side in (0, 1) for name in self._values(self.view.operand(side).value)}
        along = frozenset(self.view.rows if rows_are_neighbours(self.view) else self.view.columns)
        each = once = 0.0
        for name, op in self._ops.items():
            if name not in inside and name != self.view.name:
                if self._used.get(name, along) & along:
                    each += weight(op, self.target)
                else:
                    once += weight(op, self.target)
        return each, once

    @cached_property
    def _chained(self) -> float:
        """Additions-worth lost at each vector of sums because what is applied to it waits for one another."""
        along = frozenset(self.view.rows if rows_are_neighbours(self.view) else self.view.columns)
        after = {name for name, used in self._used.items() if used & along and name != self.view.name}
        return chain_waits((each.value for each in self.view.region.yields), self._ops, after.__contains__, self.target)

    @cached_property
    def _used(self) -> dict[str, frozenset[int]]:
        """The digits on which the values after the sums depend."""
        used: dict[str, frozenset[int]] = {}
        for name, at in self._read_after:
            used[name] = used.get(name, frozenset()) | frozenset(support(at))
        return used

    @cached_property
    def _read_after(self) -> Sequence[tuple[str, AxisMap]]:
        """The values and buffers that the epilogue reads, each place of them once, in terms of digits."""

        def below(place: tuple[str, AxisMap]) -> list[tuple[str, AxisMap]]:
            name, at = place
            reads = () if name == self.view.name or name not in self._ops else self._ops[name].inputs
            return [(read.value, compose(read.map, at)) for read in reads if isinstance(read, Operand)]

        yielded = [(each.value, compose(each.map, self.view.roles.out)) for each in self.view.region.yields]
        return post_order(yielded, below)

    @cached_property
    def _apart(self) -> float:
        """Cycles for each sum of reading one by one what lies apart beside it."""
        view, total = self.view, 0.0
        along = view.rows if rows_are_neighbours(view) else view.columns
        buffers = {each.name: each.memref for each in view.region.inputs}
        for name, at in self._read_after:
            if name in buffers and not at.is_empty:
                step = fused_step(offset(at, buffers[name].shape), along, view.sizes)
                far = step is None or abs(step) * DTYPES[buffers[name].dtype].bytes >= _LINE_BYTES
                if step not in (0, 1):
                    total += self.target.far_cycles if far else self.target.lane_cycles
        return total

    def _below(self, value: str) -> float:
        return sum(weight(self._ops[name], self.target) for name in self._values(value))

    def _values(self, value: str) -> list[str]:
        """The values that computing `value` takes, itself included."""

        def below(name: str) -> list[str]:
            return [
                each.value for each in self._ops[name].inputs if isinstance(each, Operand) and each.value in self._ops
            ]

        return post_order([value] if value in self._ops else [], below)

    @cached_property
    def _ops(self) -> dict[str, Op]:
        return {let.name: let.op for let in self.view.region.body}

    def _prologue(self, blocks: Blocks) -> tuple[float, float]:
        """Additions-worth of what computes the operands' elements: once each; and again, per block of the other operand
        or, where they are not packed, per register tile."""
        view = self.view
        once = again = 0.0
        for side, each in enumerate(self._operands):
            if each:
                columns = side == view.vector
                tiles = -(-view.m // blocks.mr) if columns else -(-view.n // blocks.nr)
                times = self._panels(blocks, side) if is_packed(view, blocks, side) else tiles
                once += self._elements(side) * each
                again += self._elements(side) * each * (times - 1)
        return once, again

    # --- what is moved ---

    def _elements(self, side: int) -> int:
        view = self.view
        return view.repeats * view.depth * (view.n if side == view.vector else view.m)

    def _panels(self, blocks: Blocks, side: int) -> int:
        """How many blocks of the other operand meet each element of operand `side`."""
        columns = side == self.view.vector
        return -(-self.view.m // blocks.bm) if columns else -(-self.view.n // blocks.bn)

    def _packing(self, blocks: Blocks) -> float:
        """Cycles of packing, all tasks together."""
        packed = [side for side in (0, 1) if is_packed(self.view, blocks, side)]
        return sum(
            self._elements(side) * self._panels(blocks, side) * self._pack_cycles(blocks, side) for side in packed
        )

    def _pack_cycles(self, blocks: Blocks, side: int) -> float:
        """Cycles per element packed: a vector at a time where the reads are a run, of a panel or along k."""
        cycles, run, along_k = self._pack_runs[side]
        each = cycles / max(min(run, self.target.lanes), 1)
        return each if along_k else max(each, _NARROW_PACK / (blocks.nr if side == self.view.vector else blocks.mr))

    @cached_property
    def _pack_runs(self) -> tuple[tuple[float, int, bool], ...]:
        """Per operand the cycles to pack a vector of it, how long its runs are, and whether they are along k."""
        view, lanes, found = self.view, self.target.lanes, []
        for side in (0, 1):
            group = view.columns if side == view.vector else view.rows
            along_k = lanes_along_k(view, side, group, lanes)
            run, step = view.run(side, view.k if along_k else group)
            cycles = _UNIT_PACK if step in (0, 1) else 2 * _UNIT_PACK if step == 2 else _LANE_PACK * lanes
            if along_k and side == view.vector:
                cycles *= 2  # turned in squares
            found.append((cycles + _TESTED * self._tested_reads(side), view.extent(run), along_k))
        return tuple(found)

    def _tested_reads(self, side: int) -> int:
        """The reads of an operand whose lanes are tested one by one: a buffer padded with zeros is copied in rows."""
        operand, reads = self.view.operand(side).value, self.view.roles.reads[side]
        padded = [read for read in reads if read.map.guards]
        if [read.buffer for read in reads] == [operand]:
            return sum(any(guard.fill != 0 for guard in read.map.guards) for read in padded)
        return len(padded)

    def _sums(self, blocks: Blocks) -> int:
        """Sums that the register tiles hold, padding included."""
        view = self.view
        return view.repeats * -(-view.m // blocks.mr) * blocks.mr * -(-view.n // blocks.nr) * blocks.nr

    def _after(self, blocks: Blocks) -> float:
        """Additions-worth of the epilogue, all tasks together: whole registers, whatever they hold."""
        each, once = self._epilogue
        rows, lanes = self._sums(blocks) // blocks.nr, self.target.lanes
        return rows * lanes * (-(-blocks.nr // lanes) * (each + self._chained) + once)

    def _folds(self, blocks: Blocks) -> float:
        """Cycles of making numbers of the sums whose lanes run along k, and vectors of these."""
        sums = self._sums(blocks)
        return sums * _FOLD + sums // blocks.nr * _FORWARD if blocks.dot else 0.0

    def _stores(self, blocks: Blocks) -> tuple[float, float]:
        """Cycles of storing the sums in whole registers, all tasks together; and those lost where neighbouring columns
        are no neighbours in the output."""
        whole = _STORE / self.target.lanes
        outputs = len(self.view.region.outputs)
        times = (-(-self.view.depth // blocks.bk) if blocks.bk else 1) + outputs - 1
        return self._sums(blocks) * times * whole, outputs * self._turning(blocks) if self._turned else 0.0

    def _turning(self, blocks: Blocks) -> float:
        """Cycles by which storing across the columns is slower, all tasks together."""
        if not rows_are_neighbours(self.view):
            return self._sums(blocks) * (1.0 - _STORE / self.target.lanes)
        whole, cut = divmod(blocks.mr, self.target.lanes)
        return self._sums(blocks) / blocks.mr * (whole * _TURN + (_CUT_TURN if cut else 0.0))

    @cached_property
    def _turned(self) -> bool:
        return self.view.n > 1 and self.view.out_step(self.view.columns) != 1

    def _reread(self, blocks: Blocks) -> float:
        """Cycles of reading operands again: those that the last cache does not hold, once more per further block of the
        other."""
        total = 0.0
        for side, sizes in enumerate(self._sizes[1]):
            again = self._panels(blocks, side) - 1
            total += sum(size * again for size in sizes if size > self.target.last_level_bytes / 2)
        return total * self.target.refetch_cycles(math.inf) if total else 0.0

    @cached_property
    def _sizes(self) -> tuple[int, tuple[tuple[int, ...], ...]]:
        """Bytes of all tensors together, and per operand of those that it is computed from."""
        region = self.view.region
        buffers = {each.name: each.memref.nbytes for each in (*region.inputs, *region.outputs)}
        reads = self.view.roles.reads
        sides = (tuple(buffers[name] for name in dict.fromkeys(read.buffer for read in side)) for side in reads)
        return sum(buffers.values()), tuple(sides)

    def _scratch(self, blocks: Blocks) -> int:
        """Bytes of a task's workspace that it goes through again and again: packed rows, and sums that wait."""
        view, item = self.view, DTYPES[self.view.accumulator].bytes
        rows = blocks.bm * blocks.bk if is_packed(view, blocks, 1 - view.vector) else 0
        sums = blocks.bm * blocks.bn if blocks.bk < view.depth else 0
        return item * (rows + sums)
