"""The cycles that a core waits in a nest: for the sum of the lanes of a register, and for terms added one by one."""

from __future__ import annotations

import math

from codegen.plan.cpu.nest_access_work import EXPOSED_SHARE
from codegen.plan.cpu.nest_trips import PlannedNest
from codegen.plan.cpu.nest_value_work import Accumulator, NestValues
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE
from ir.plan.cpu import CpuNestPlan

_HORIZONTAL_CYCLES, _TOGETHER_CYCLES = 5.0, 2.0
"""Cycles to reduce the lanes of a register to one number: of one row, and per row of rows that run together."""
_STALL_CYCLES = 50.0
"""Cycles until that number can be used, where the rest of its row waits for it."""
_WINDOW_CYCLES = 150.0
"""Cycles of work that a core can run ahead: shorter rows run during the stalls of the rows before."""
_CARRY_CYCLES = 4.0
"""Cycles from one term to the next where terms are added one by one: the latency of an addition."""
_EXTREME_CYCLES, _FEW_TERMS = 7.0, 32
"""Cycles of latency of a maximum; and terms up to which the next points run during the latencies."""
_DOUBLING_CYCLES = 12.0
"""Cycles per vector of a scan along lanes, by doubling."""


def waits(values: NestValues, nest: PlannedNest, plan: CpuNestPlan, busy: float) -> float:
    """Cycles that a core waits in a nest whose other work takes `busy` cycles. Rows that run together wait together."""
    total, together = 0.0, plan.rows
    lanes = values.target.lanes
    for accumulator in values.accumulators:
        around = nest.around[accumulator.axes]
        if not around.has_lanes:
            total += math.prod(accumulator.op.domain) * _CARRY_CYCLES if accumulator.in_order else 0.0
            stall = min(_STALL_CYCLES, _STALL_CYCLES * busy / (_WINDOW_CYCLES * max(1, accumulator.rows)))
            least = _HORIZONTAL_CYCLES if together == 1 else _TOGETHER_CYCLES
            total += accumulator.rows * max(least, stall / together if accumulator.awaited else 0.0)
            if accumulator.score is not None:
                rescaling = (
                    _extra_rescalings(accumulator.run, lanes, plan.rescaled) * accumulator.score / ADDITIONS_PER_CYCLE
                )
                total += accumulator.rows * (_HORIZONTAL_CYCLES + rescaling)
        elif accumulator.op.kind == "reduce":
            rows = 1 if accumulator.axes.isdisjoint(nest.row_axes) else plan.rows
            total += _carry_cycles(accumulator, around.vectors, plan.width // lanes * rows)
    return total + _scan_cycles(values, nest)


def _carry_cycles(accumulator: Accumulator, vectors: int, registers: int) -> float:
    """Cycles in which the `registers` of a step wait for the sum of the term before."""
    if accumulator.terms <= _FEW_TERMS:
        return 0.0
    latency = _EXTREME_CYCLES if accumulator.op.fn in ("max", "min") else _CARRY_CYCLES
    wait = latency / max(1, registers) - accumulator.beside / ADDITIONS_PER_CYCLE - EXPOSED_SHARE
    return vectors * accumulator.terms * max(0.0, wait)


def _scan_cycles(values: NestValues, nest: PlannedNest) -> float:
    """Cycles of carrying a scan from lane to lane, where lanes run along the scan."""
    loops = values.loops
    if not nest.along or nest.along[-1] not in loops.core.sequential_axes:
        return 0.0
    one_by_one = any(loops.in_order(name) for name, op in loops.ops.items() if op.kind == "scan")
    return math.prod(loops.shape) * (_CARRY_CYCLES if one_by_one else _DOUBLING_CYCLES / values.target.lanes)


def _extra_rescalings(terms: int, lanes: int, rescaled: int) -> float:
    """How often the sums of a row are rescaled beyond once per `rescaled` registers, where lanes run along terms: for
    the registers that remain, for the last register if it is partly filled, and to join lanes."""
    registers, rest = divmod(terms, lanes)
    return -(-registers // rescaled) - registers / rescaled + (rest > 0) + 1
