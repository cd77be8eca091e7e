"""The work of a plan of a nest.

The model counts cycles of one core: arithmetic at every point where the nest computes a value (`nest_value_work`),
loads and stores by the positions of their lanes in memory (`nest_access_work`), and waits (`nest_latency`). Memory
traffic is the size of the buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from codegen.plan.cpu.cache_lines import cold_constants, waiting_for_constants
from codegen.plan.cpu.constant_pieces import piece_cycles
from codegen.plan.cpu.kept_rows import KeptRow
from codegen.plan.cpu.nest_access_work import Collision, NestAccesses
from codegen.plan.cpu.nest_latency import waits
from codegen.plan.cpu.nest_trips import NestKey, PlannedNest
from codegen.plan.cpu.nest_value_work import NestValues
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE
from codegen.plan.region_loops import RegionLoops
from ir.plan.cpu import CpuNestPlan
from ir.pricer import Work
from ir.region.work import read_bytes
from ir.target import Target

PARTS = 32
"""Tasks, or parts of a reduction, where there is work for several threads. The number is fixed, so that results have
the same bits on machines with other numbers of cores."""


class _Cycles(NamedTuple):
    """The figures that plans with one nest, the same kept rows and the same `rescaled` share: `again` in
    additions-worth, the rest in cycles. `moved` and `apart` are the two of `NestAccesses.moves`."""

    nest: PlannedNest
    again: float
    arithmetic: float
    kept: float
    moved: float
    apart: float
    chained: float
    reread: float
    collisions: tuple[Collision, ...]


@dataclass(frozen=True, eq=False)
class NestWork:
    """The work of every plan of one region. `rows` are the rows that a plan may keep."""

    loops: RegionLoops
    target: Target
    rows: Sequence[KeptRow]
    _cycles: dict[tuple[NestKey, int, tuple[KeptRow, ...]], _Cycles] = field(
        default_factory=dict, init=False, repr=False
    )
    _values_of: dict[tuple[int, tuple[KeptRow, ...]], NestValues] = field(default_factory=dict, init=False, repr=False)

    def of(self, plan: CpuNestPlan) -> Work:
        """The work of one plan."""
        kept = tuple([row for row in self.rows if row.kept in plan.kept]) if plan.kept else ()
        values = self._values(plan.rescaled)
        flops = max(1.0, self._points, values.computed_once)
        lanes, cycles = self.target.lanes, self._cycles_of(NestKey.of(plan), plan.rescaled, kept)
        again, vectors = cycles.again, cycles.arithmetic
        waiting = waits(values, cycles.nest, plan, vectors + cycles.moved) + cycles.chained
        reread = cycles.reread
        for collision in cycles.collisions:
            reread += self._accesses.collision_cycles(collision, plan.width)
        ideal = (flops + again) / (ADDITIONS_PER_CYCLE * lanes)
        busy = ideal + cycles.moved + waiting
        return Work(
            flops=flops,
            bytes=self._bytes,
            compute_dtype="fp32",
            occupancy=self._occupancy(plan, cycles.nest),
            efficiency=max(1e-5, min(1.0, (flops + again) / (4 * lanes * busy))),
            recomputed=again,
            reread=reread,
            layout=max(0.0, vectors - ideal)
            + cycles.apart
            + piece_cycles(self.loops, plan, self.target)
            + waiting_for_constants(self._cold_bytes, busy, self.target),
            fanout=cycles.kept,
            scratch=plan.rows * sum(row.nbytes for row in kept),
            parallel=bool(plan.threads) or plan.part is not None,
            cold_bytes=self.loops.cold_bytes,
        )

    def _cycles_of(self, key: NestKey, rescaled: int, kept: tuple[KeptRow, ...]) -> _Cycles:
        if (key, rescaled, kept) not in self._cycles:
            nest = PlannedNest.of(self.loops.shape, key, self.target.lanes)
            values, accesses = self._values(rescaled, kept), self._accesses
            self._cycles[key, rescaled, kept] = _Cycles(
                nest,
                values.recompute_work(nest),
                values.arithmetic(nest),
                values.row_moves(nest),
                *accesses.moves(nest),
                values.chain_wait(nest),
                self._allocation_cycles + accesses.refetch_cycles(nest),
                accesses.collisions(nest),
            )
        return self._cycles[key, rescaled, kept]

    def _occupancy(self, plan: CpuNestPlan, nest: PlannedNest) -> float:
        """The share of the cores that the plan's tasks keep busy."""
        tasks, units = 1, self.target.units
        for position in plan.threads:
            _, extent = nest.loops[position]
            tasks *= max(1, -(-extent // plan.loops[position].tile))
        if plan.part is not None:
            tasks = max(tasks, PARTS)
        return tasks / (-(-tasks // units) * units)

    def _values(self, rescaled: int, kept: tuple[KeptRow, ...] = ()) -> NestValues:
        if (rescaled, kept) not in self._values_of:
            self._values_of[rescaled, kept] = NestValues(self.loops, self.target, rescaled, kept)
        return self._values_of[rescaled, kept]

    @cached_property
    def _accesses(self) -> NestAccesses:
        return NestAccesses(self.loops, self.target)

    @cached_property
    def _points(self) -> int:
        """Points of all outputs, which a copy counts as its additions-worth."""
        return sum(math.prod(output.memref.shape) for output in self.loops.region.outputs)

    @cached_property
    def _bytes(self) -> float:
        return float(self.loops.nbytes)

    @cached_property
    def _cold_bytes(self) -> float:
        """Bytes of constants that come from memory."""
        constants = {buffer.name for buffer in self.loops.region.inputs if buffer.constant}
        if not constants:
            return 0.0
        read = sum(size for name, size in read_bytes(self.loops.region).items() if name in constants)
        return cold_constants(read, self.target)

    @cached_property
    def _allocation_cycles(self) -> float:
        """Cycles to fetch the cache lines that stores fill, where the nearest cache does not hold the kernel's data."""
        if self._bytes <= self.target.l1_bytes:
            return 0.0
        stored = sum(output.memref.nbytes for output in self.loops.region.outputs)
        return stored * self.target.refetch_cycles(min(self._bytes, self.target.l2_bytes))
