"""Scans at a point: the running value is carried through the loop along the scan, and from lane to lane.

Y[i] = x[0] + … + x[i], lanes along i
  run = -0
  for i in 0 .. n step lanes
    own = prefix sums of x[i : unit]              by doubling; in index order where the plan asks for it
    Y[i : unit] = add(run, own)
    run = add(run, last(own))
"""

from __future__ import annotations

from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.lower.cpu.lane_values import convert
from codegen.lower.points import Point, Where, axes_of
from ir.index.expr import AxisExpr
from ir.kernel.cpu.nodes import CpuCall, Inside, Value
from ir.kernel.nodes import Reg
from ir.region.region import Op

_DOUBLED = frozenset(["fp32", "fp64", "i32", "u32", "i64", "u64"])
"""Dtypes whose running results along lanes are computed by doubling, where terms may be taken in any order."""


def scan(ev: LaneEvaluator, name: str, op: Op, point: Point, block: CpuBlock, where: Where) -> Value:
    """The running value of a scan at `point`, whose coordinate along the scan is the counter of the loop with the body
    `block`. The value is carried from iteration to iteration, and from lane to lane where lanes run along the scan.
    Points must be evaluated in the scan's order."""
    assert op.axis is not None
    source, kind, fn, identity = ev.joining(op)
    term = convert(ev.operand(op.inputs[0], point, block, where), source, kind)
    if op.domain[op.axis] == 1:
        return convert(term, kind, op.dtype)
    others = (*point[: op.axis], *point[op.axis + 1 :])
    running = _carried_register(ev, name, op, point[op.axis], others, block, where)
    if not block.moves_in_lanes(point[op.axis].axes):
        block.accumulate(running, fn, term)
        return convert(running, kind, op.dtype)
    lane = block.lane_axis
    if lane is not None and lane.count is not None:  # so that the last lane of a tail holds its result
        exists = Inside((), lane.variable, lane.count)
        term = CpuCall("where", (exists, term, identity), kind)
    if ev.loops.in_order(name) or kind not in _DOUBLED:
        along = block.let(name, CpuCall(f"run{fn}", (running, term), kind))
        block.assign(running, CpuCall("last", (along,), kind))
        return convert(along, kind, op.dtype)
    own = block.let(f"{name}_own", CpuCall(f"prefix{fn}", (term,), kind))
    along = block.let(name, CpuCall(fn, (running, own), kind))
    block.accumulate(running, fn, CpuCall("last", (own,), kind))  # `own` does not wait for the vector before
    return convert(along, kind, op.dtype)


def _carried_register(
    ev: LaneEvaluator, name: str, op: Op, along: AxisExpr, others: Point, block: CpuBlock, where: Where
) -> Reg:
    """The register that a scan carries through the loop over `along`; it stands before the loop."""
    counters = [ev.writer.counter(variable).terms for variable in block.variables]
    assert block.sequential, "the loop along a scan runs through the whole axis in order"
    assert along.terms in counters, "a scan is read at the step that its loop has reached"
    assert not along.axes & axes_of(others, where)
    assert block.parent is not None
    key = ("carried", name, others, where)
    register = block.find(key)
    if register is None:
        identity = ev.joining(op).identity
        register = block.parent.memo[key] = block.parent.let(f"{name}_run", identity, mutable=True)
    assert isinstance(register, Reg)
    return register
