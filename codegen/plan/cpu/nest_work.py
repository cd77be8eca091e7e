"""The work that a plan of a nest makes the machine do.

The model counts the cycles of one core per vector: arithmetic at every point where the nest computes it
(`nest_value_work`), loads and stores by how their lanes lie in memory (`nest_access_work`), and what lanes wait for
(`nest_latency`); traffic beyond the caches is the buffers' own size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from codegen.plan.cpu.kept_rows import KeptRow
from codegen.plan.cpu.nest_access_work import Collision, NestAccesses
from codegen.plan.cpu.nest_latency import waits
from codegen.plan.cpu.nest_trips import NestKey, PlannedNest
from codegen.plan.cpu.nest_value_work import NestValues
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE
from codegen.plan.region_loops import RegionLoops
from ir.plan.cpu import CpuNestPlan
from ir.pricer import Work
from ir.target import Target

PARTS = 32
"""Tasks or parts of a reduction where there is work for several threads: a fixed number, for the same bits."""


class _Cycles(NamedTuple):
    """What all plans of one nest share that keep the same rows: `again` in additions-worth, the rest in cycles."""

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
    """Works of the plans of one region. `rows` are those that a plan may keep."""

    loops: RegionLoops
    target: Target
    rows: Sequence[KeptRow]
    _cycles: dict[tuple[NestKey, tuple[KeptRow, ...]], _Cycles] = field(default_factory=dict, init=False, repr=False)
    _values_of: dict[tuple[KeptRow, ...], NestValues] = field(default_factory=dict, init=False, repr=False)

    def of(self, plan: CpuNestPlan) -> Work:
        """The work of one plan."""
        kept = tuple([row for row in self.rows if row.kept in plan.kept]) if plan.kept else ()
        lanes, cycles = self.target.lanes, self._of_nest(NestKey.of(plan), kept)
        again, vectors = cycles.again, cycles.arithmetic
        waiting = waits(self._values(), cycles.nest, plan, vectors + cycles.moved) + cycles.chained
        reread = cycles.reread
        for each in cycles.collisions:
            reread += self._accesses.waited(each, plan.width)
        ideal = (self._flops + again) / (ADDITIONS_PER_CYCLE * lanes)
        busy = ideal + cycles.moved + waiting
        return Work(
            flops=self._flops,
            bytes=self._bytes,
            compute_dtype="fp32",
            occupancy=self._occupancy(plan, cycles.nest),
            efficiency=max(1e-5, min(1.0, (self._flops + again) / (4 * lanes * busy))),
            recomputed=again,
            reread=reread,
            layout=max(0.0, vectors - ideal) + cycles.apart,
            fanout=cycles.kept,
            scratch=plan.rows * sum(row.nbytes for row in kept),
            parallel=bool(plan.threads) or plan.part is not None,
        )

    def _of_nest(self, key: NestKey, kept: tuple[KeptRow, ...]) -> _Cycles:
        if (key, kept) not in self._cycles:
            nest = PlannedNest.of(self.loops.shape, key, self.target.lanes)
            values, accesses = self._values(kept), self._accesses
            self._cycles[key, kept] = _Cycles(
                nest,
                values.again(nest),
                values.arithmetic(nest),
                values.kept(nest),
                *accesses.moves(nest),
                values.chained(nest),
                self._allocated + accesses.refetched(nest),
                accesses.collisions(nest),
            )
        return self._cycles[key, kept]

    def _occupancy(self, plan: CpuNestPlan, nest: PlannedNest) -> float:
        """The share of the cores that the plan's tasks keep busy."""
        tasks, units = 1, self.target.units
        for position in plan.threads:
            _, extent = nest.loops[position]
            tasks *= max(1, -(-extent // plan.loops[position].tile))
        if plan.part is not None:
            tasks = max(tasks, PARTS)
        return tasks / (-(-tasks // units) * units)

    def _values(self, kept: tuple[KeptRow, ...] = ()) -> NestValues:
        if kept not in self._values_of:
            self._values_of[kept] = NestValues(self.loops, self.target, kept)
        return self._values_of[kept]

    @cached_property
    def _accesses(self) -> NestAccesses:
        return NestAccesses(self.loops, self.target)

    @cached_property
    def _flops(self) -> float:
        """Additions-worth, each value computed once; a copy counts its points."""
        points = sum(math.prod(each.memref.shape) for each in self.loops.region.outputs)
        return max(1.0, points, self._values().once)

    @cached_property
    def _bytes(self) -> float:
        return float(self.loops.nbytes)

    @cached_property
    def _allocated(self) -> float:
        """Cycles of fetching the lines that stores fill, where the nearest cache does not hold the kernel's data."""
        if self._bytes <= self.target.l1_bytes:
            return 0.0
        stored = sum(each.memref.nbytes for each in self.loops.region.outputs)
        return stored * self.target.refetch_cycles(min(self._bytes, self.target.l2_bytes))
