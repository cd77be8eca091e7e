"""The estimate by which candidate plans of a GPU kernel are ordered."""

from __future__ import annotations

from typing import NamedTuple

from ir.pricer import Work
from ir.target import Target


class PlanTime(NamedTuple):
    """A plan's time in ns by seed 000 §11, then the time of its arithmetic alone, which orders the plans that memory
    binds."""

    whole: float
    arithmetic: float


def plan_time(work: Work, target: Target) -> PlanTime:
    """The estimate of a plan from its work. The launch is left out, since all plans of a kernel have the same."""
    cycles = (work.flops + work.recomputed) / (target.per_cycle(work.compute_dtype) * work.efficiency)
    cycles += work.reread + work.layout + work.fanout
    arithmetic = cycles * target.cycle_ns / target.units / work.occupancy
    memory = work.bytes / target.bandwidth * 1e9 / work.occupancy
    return PlanTime(max(arithmetic, memory), arithmetic)
