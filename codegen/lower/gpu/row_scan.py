"""Scans along a row: carried between lanes by shuffles, between warps through shared memory, then from turn to turn.

run = identity
for k in 0 .. turns
  own = term; for by in 1, 2, 4, 8, 16: own = join(shfl_up(own, by), own) where lane >= by
  before = warps' totals joined, up to this one
  y[element] = join(run, join(before, own)); run = join(run, total)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codegen.lower.accumulators import Joining
from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.nest_evaluator import NestEvaluator
from codegen.lower.gpu.reduce_at_point import join
from codegen.lower.gpu.row_pass import Team, shuffle
from codegen.lower.gpu.thread_evaluator import convert
from codegen.lower.points import Point, Where
from codegen.plan.gpu.nest_tiling import row_scans
from ir.index.expr import AxisExpr
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.nodes import At, Barrier, Call, GpuIf, Holds, LoadShared, StShared, Value
from ir.kernel.nodes import Reg, Within


@dataclass
class Scans:
    """The scans of the outputs' pass over `length` elements, in the body's order. `before`: the values of scans before
    the pass, if they are not the identity. `running`: the values that scans carry from turn to turn."""

    ev: NestEvaluator
    team: Team
    block: GpuBlock
    length: int
    before: Mapping[str, Value]
    running: dict[str, Reg] = field(default_factory=dict)
    how: dict[str, Joining] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in row_scans(self.ev.loops):
            self.how[name] = self.ev.joining(self.ev.ops[name])
            start = self.before.get(name, self.how[name].identity)
            register = self.block.let(f"{name}_run", start, mutable=True)
            assert isinstance(register, Reg)
            self.running[name] = register

    @property
    def any(self) -> bool:
        return bool(self.how)

    def step(self, block: GpuBlock, point: Point, where: Where, exists: Where) -> None:
        """Writes every scan at the element of this turn."""
        for name, how in self.how.items():
            term = scan_term(self.ev, name, how, point, block, where)
            if exists:
                term = Call("where", (Holds(exists), term, how.identity), how.dtype)
            along = block.let(name, self._along(name, how, term, block))
            at = _point_of(self.ev, name, point)
            self.team.finish(name, at, convert(along, how.dtype, self.ev.ops[name].dtype))

    def _along(self, name: str, how: Joining, term: Value, block: GpuBlock) -> Value:
        """The running value at a thread's element; updates the value that the next turn starts from."""
        running, size = self.running[name], self.team.rows.team
        if size == 1:
            block.assign(running, join(how, running, term))
            return running
        own = block.let(f"{name}_own", term, mutable=True)
        assert isinstance(own, Reg)
        lanes = min(size, WARP_LANES)
        lane = self.ev.writer.split(self.ev.writer.lane, lanes)[1]
        by = 1
        while by < lanes:
            before = block.let(f"{name}_up", shuffle("up", own, AxisExpr(by)))
            joined = join(how, before, own)
            block.assign(own, Call("where", (Holds((Within(lane, by, lanes),)), joined, own), how.dtype))
            by *= 2
        if size <= WARP_LANES:
            result = block.let(f"{name}_at", join(how, running, own))
            last = self.ev.writer.lane - lane + AxisExpr(lanes - 1)
            block.assign(running, shuffle("lane", result, last))
            return result
        return self._between_warps(name, how, own, block)

    def _between_warps(self, name: str, how: Joining, own: Reg, block: GpuBlock) -> Value:
        writer, team = self.ev.writer, self.team
        warps = team.rows.team // WARP_LANES
        warp = writer.split(writer.warp, warps)[1]
        totals = team.declare_shared(f"{name}_warps", how.dtype, (team.rows.height, warps))
        last = Within(writer.lane, WARP_LANES - 1, WARP_LANES)
        block.add(GpuIf((last,), (StShared(At(totals, (team.number, warp)), own),)), Barrier())
        running = self.running[name]
        before = block.let(f"{name}_before", running, mutable=True)
        assert isinstance(before, Reg)
        with block.loop("w", AxisExpr(warps), unroll=True) as (body, at):
            total = body.let("of_warp", LoadShared(At(totals, (team.number, at)), how.dtype))
            earlier = Holds((Within(at - warp, -warps, 0),))
            body.assign(before, Call("where", (earlier, join(how, before, total), before), how.dtype))
            body.assign(running, join(how, running, total))
        result = block.let(f"{name}_at", join(how, before, own))
        if team.rows.own_turns(self.length) > 1:
            block.add(Barrier())  # the next turn writes what this one read
        return result


def scan_term(ev: NestEvaluator, name: str, how: Joining, point: Point, block: GpuBlock, where: Where) -> Value:
    """The term of a scan at a point of the outputs."""
    value = ev.operand(ev.ops[name].inputs[0], _point_of(ev, name, point), block, where)
    return convert(value, how.source, how.dtype)


def _point_of(ev: NestEvaluator, name: str, point: Point) -> Point:
    """The point of a scan that a point of the outputs reads."""
    site = next(site for site in ev.loops.core.sites if site.value == name and site.scope == ev.loops.scope)
    return ev.writer.at(site.map.exprs, point)
