"""What a core waits for in a nest: lanes that hand on what they have, sums that a row waits for, terms one by one."""

from __future__ import annotations

import math

from codegen.plan.cpu.nest_access_work import SEEN
from codegen.plan.cpu.nest_tiling import RESCALED
from codegen.plan.cpu.nest_trips import PlannedNest
from codegen.plan.cpu.nest_value_work import Accumulator, NestValues
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE
from ir.plan.cpu import CpuNestPlan

_HORIZONTAL_CYCLES, _TOGETHER_CYCLES = 5.0, 2.0
"""Cycles to reduce the lanes of a register to one number, among other such work; and of each of rows together."""
_STALL_CYCLES = 50.0
"""Cycles until a number so reduced can be used, where all that follows in its row waits for it."""
_WINDOW_CYCLES = 150.0
"""Work that a core finds ready ahead of what waits: rows shorter than this run during the stalls of those before."""
_CARRY_CYCLES = 4.0
"""Cycles per term that lanes hand on one after another: the latency of an addition."""
_EXTREME_CYCLES, _FEW_TERMS = 7.0, 32
"""The latency of a maximum; and terms so few that those of the next points run meanwhile."""
_DOUBLING_CYCLES = 12.0
"""Cycles per vector of a scan along lanes, by doubling."""


def waits(values: NestValues, nest: PlannedNest, plan: CpuNestPlan, busy: float) -> float:
    """Cycles until lanes have handed on what they have, of a nest that is `busy` for so many. Rows that run together
    wait together."""
    total, together = 0.0, plan.rows
    lanes = values.target.lanes
    for each in values.accumulators:
        around = nest.around[each.axes]
        if not around.has_lanes:
            total += math.prod(each.op.domain) * _CARRY_CYCLES if each.in_order else 0.0
            stall = min(_STALL_CYCLES, _STALL_CYCLES * busy / (_WINDOW_CYCLES * max(1, each.rows)))
            least = _HORIZONTAL_CYCLES if together == 1 else _TOGETHER_CYCLES
            total += each.rows * max(least, stall / together if each.awaited else 0.0)
            if each.score is not None:
                rescaling = _rescalings(each.run, lanes) * each.score / ADDITIONS_PER_CYCLE
                total += each.rows * (_HORIZONTAL_CYCLES + rescaling)
        elif each.op.kind == "reduce":
            total += _carried(each, around.vectors, plan, lanes)
    return total + _scanned(values, nest)


def _carried(each: Accumulator, vectors: int, plan: CpuNestPlan, lanes: int) -> float:
    """Cycles in which the registers of a step wait for their own sums, one term after another."""
    if each.terms <= _FEW_TERMS:
        return 0.0
    registers = max(1, plan.width // lanes)
    latency = _EXTREME_CYCLES if each.op.fn in ("max", "min") else _CARRY_CYCLES
    return vectors * each.terms * max(0.0, latency / registers - each.beside / ADDITIONS_PER_CYCLE - SEEN)


def _scanned(values: NestValues, nest: PlannedNest) -> float:
    """Cycles of handing a scan on from lane to lane, where lanes run along it."""
    loops = values.loops
    if not nest.along or f"i{nest.along[-1]}" not in loops.core.sequential_axes:
        return 0.0
    one_by_one = any(loops.in_order(name) for name, op in loops.ops.items() if op.kind == "scan")
    return math.prod(loops.shape) * (_CARRY_CYCLES if one_by_one else _DOUBLING_CYCLES / values.target.lanes)


def _rescalings(terms: int, lanes: int) -> float:
    """How often the sums of a row are rescaled, where lanes run along terms, more than once for `RESCALED` registers:
    for the registers left, for those partly filled, and to join lanes."""
    registers, rest = divmod(terms, lanes)
    return -(-registers // RESCALED) - registers / RESCALED + (rest > 0) + 1
