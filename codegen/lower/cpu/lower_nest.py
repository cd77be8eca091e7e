"""A region's loops and a CpuNestPlan → a CPU kernel, for every region without a contraction.

The outputs are a nest of loops. Values are evaluated at the innermost point and hoisted out of the loops on which they
do not depend:

    plan   loops i0 in blocks of 8, which are tasks, and i1, which has the lanes
    kernel phase t in 0 .. 64: for i0 in 8*t .. 8*t + 8: for i1 in 0 .. 512 step lanes: y = …

Merged axes ("i0i1") are one loop. A loop whose tile is smaller than its extent is blocked; the blocks of loops that
threads share are the kernel's tasks. The plan's `tails` name the loops whose last vector does not fill a register. A
range without padding is a loop of its own, without checks. Rows that run together share the inner loops over terms and
lanes, so that the core computes one row while it waits for the sum of another row's lanes:

    rows 2 for i0 in 0 .. 512 step 2: m, m_1 = …; for r: s = s + exp(x[i0, r] - m); s_1 = s_1 + exp(x[i0 + 1, r] - m_1)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from codegen.lower.cpu import reduce_at_point as lower_reduce
from codegen.lower.cpu import stream_at_point as lower_stream
from codegen.lower.cpu.builder import CpuBlock, CpuWriter, LaneAxis
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.lower.cpu.rows_on_chip import place_rows
from codegen.lower.cpu.split_reduce import partial_phase
from codegen.lower.points import axes_of
from codegen.plan.cpu.nest_tiling import NestLoop, holds_terms, nest_loops
from codegen.plan.region_loops import Group, RegionLoops
from codegen.poly.stream_roles import score_read
from ir.index.expr import AxisExpr, coordinates, substitute
from ir.index.map import support
from ir.kernel.cpu.kernel import CpuKernel, Phase
from ir.kernel.cpu.nodes import CpuIf, Value
from ir.kernel.nodes import Bind, Within
from ir.plan.cpu import CpuNestPlan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.poly.core import Site
from ir.region.overwrite import is_over_an_input
from ir.region.region import Region, Yield
from ir.target import LANES


def lower_nest(loops: RegionLoops, plan: CpuNestPlan, name: str = "eq_k") -> CpuKernel:
    """The kernel `name` that runs a region's loops by a plan that fits."""
    writer = CpuWriter(LANES[plan.arch])
    params = writer.params(loops.region)
    return writer.kernel(name, params, nest_phases(loops, plan, writer), nest_comment(loops.region, plan))


def nest_phases(loops: RegionLoops, plan: CpuNestPlan, writer: CpuWriter) -> list[Phase]:
    """The phases that compute the outputs of a region by a plan that fits."""
    ev = RegionEvaluator(loops, writer, plan.rescaled)
    ev.keep(place_rows(loops, plan, writer))
    phases: list[Phase] = []
    if plan.part is not None:
        phases.append(partial_phase(ev, plan.part, lanes_in_results=plan.lanes is not None))
    if 0 not in loops.shape:
        phases.append(_Outputs(ev, plan).phase())
    return phases


@dataclass(frozen=True)
class _LoopPoint:
    """The position of one loop, as part of a point under construction."""

    loop: NestLoop
    at: AxisExpr


class _Stored(NamedTuple):
    """An element or a register of a buffer, to be stored at a point in a block."""

    buffer: str
    point: tuple[AxisExpr, ...]
    value: Value
    block: CpuBlock


Points = Sequence[Sequence[_LoopPoint]]
"""Points under construction that share loops."""


def _single_rows(loops: list[NestLoop]) -> list[NestLoop]:
    """The loops with one row at a time."""
    return [loop if loop.vector else replace(loop, width=1, split=False) for loop in loops]


def _place_all(points: Points, loop: NestLoop, at: AxisExpr) -> Points:
    return [[*places, _LoopPoint(loop, at)] for places in points]


class _Outputs:
    """The phase that writes the outputs."""

    def __init__(self, ev: LaneEvaluator, plan: CpuNestPlan) -> None:
        self.ev, self.plan, self.shape = ev, plan, ev.loops.shape
        self.writer = ev.writer
        self.nest = nest_loops(ev.loops, plan)
        self._origins: dict[Group, AxisExpr] = {}
        """Blocked loop → the first point of its block."""
        self._reduces = any(op.kind == "reduce" for op in ev.ops.values())

    def phase(self) -> Phase:
        bound = [loop for loop in self.nest if loop.bound]
        counts = [loop.blocks for loop in bound]
        tasks = math.prod(counts)
        task = self.writer.variable("t", 0, tasks - 1)
        root = CpuBlock(self.writer, None, {task})
        for loop, number in zip(bound, coordinates(self.writer.axis(task), counts, self.writer.box), strict=True):
            self._origins[loop.group] = self._origin(loop, number, root)
        self._write_blocks([loop for loop in self.nest if not loop.bound and loop.blocks > 1], root)
        return Phase(task, tasks, tuple(root.statements))

    def _origin(self, loop: NestLoop, number: AxisExpr, block: CpuBlock) -> AxisExpr:
        """The first point of block `number` of a loop, as a variable."""
        if not number.terms:
            return number * loop.tile
        variable = self.writer.variable(f"{loop.name}o", 0, (loop.blocks - 1) * loop.tile)
        block.add(Bind(variable, number * loop.tile))
        block.variables.add(variable)
        return self.writer.axis(variable)

    def _write_blocks(self, blocked: Sequence[NestLoop], block: CpuBlock) -> None:
        """Loops over the blocks that no thread is bound to, then the loops inside a block."""
        if not blocked:
            self._write_loops(list(self.nest), [[]], block)
            return
        loop, *rest = blocked
        variable = self.writer.variable(f"{loop.name}o", 0, (loop.blocks - 1) * loop.tile)
        body = block.inner({variable})
        self._origins[loop.group] = self.writer.axis(variable)
        self._write_blocks(rest, body)
        block.loop(body, variable, AxisExpr(), AxisExpr(loop.extent), loop.tile)

    def _write_loops(self, loops: list[NestLoop], points: Points, block: CpuBlock) -> None:
        """Writes the remaining loops, with `points` in the innermost: the registers of a step of a vector loop, or rows
        that run together."""
        if not loops:
            self._write_points(points, block)
            return
        loop, *rest = loops
        if loop.vector:
            self._write_vectors(loop, rest, points, block)
            return
        if loop.extent == 1:
            self._write_loops(rest, _place_all(points, loop, AxisExpr()), block)
            return
        interior = self._interior(loop)
        if interior is not None and loop.blocks == 1:
            low, high = interior
            alone = replace(loop, width=1)
            self._write_rows(alone, (0, low), _single_rows(rest), points, block)
            self._write_rows(loop, interior, rest, points, block)
            self._write_rows(alone, (high, loop.extent), _single_rows(rest), points, block)
            return
        if loop.width > 1 or interior is not None:
            self._write_rows(loop, (0, loop.extent), rest, points, block, interior)
            return
        variable = self.writer.variable(loop.name, 0, loop.extent - 1)
        origin = self._origins.get(loop.group, AxisExpr())
        body = block.inner({variable}, sequential=loop.blocks == 1)
        self._write_loops(rest, _place_all(points, loop, self.writer.axis(variable)), body)
        limit = None if loop.extent % loop.tile == 0 else loop.extent
        block.loop(body, variable, origin, origin.shift(loop.tile), 1, limit)

    # --- rows and vectors ---

    def _write_rows(
        self,
        loop: NestLoop,
        places: tuple[int, int],
        rest: list[NestLoop],
        points: Points,
        block: CpuBlock,
        interior: tuple[int, int] | None = None,
    ) -> None:
        """Writes loops along a range of one axis: whole steps of rows that run together, then the rows that remain."""
        low, high = places
        whole = high - (high - low) % loop.width
        for start, stop, step in ((low, whole, loop.width), (whole, high, high - whole)):
            if start >= stop:
                continue
            variable = self.writer.variable(loop.name, start, stop - step)
            body = block.inner({variable})
            if interior is not None and interior[1] - interior[0] >= step:
                self._write_twice(loop, variable, (start, stop, step), interior, rest, points, body)
            else:
                self._write_together(loop, variable, step, rest, points, body)
            self._add_loop(loop, body, variable, (start, stop, step), block)

    def _write_twice(
        self,
        loop: NestLoop,
        variable: int,
        steps: tuple[int, int, int],
        interior: tuple[int, int],
        rest: list[NestLoop],
        points: Points,
        body: CpuBlock,
    ) -> None:
        """Writes a step of rows once for the interior, together and without checks, and once for other places."""
        first, last = interior[0], interior[1] - steps[2]
        inside = self.writer.variable(loop.name, first, last)
        barrier = not holds_terms(self.ev.loops, self.plan.width, self.plan.arch)
        free, checked = body.inner({inside}, barrier=barrier), body.inner(barrier=barrier)
        free.add(Bind(inside, self.writer.axis(variable)))
        self._write_together(loop, inside, steps[2], rest, points, free)
        self._write_one_by_one(loop, variable, steps, rest, points, checked)
        condition = Within(self.writer.axis(variable), first, last + 1)
        body.add(CpuIf((condition,), tuple(free.statements), tuple(checked.statements)))

    def _write_together(
        self,
        loop: NestLoop,
        variable: int,
        step: int,
        rest: list[NestLoop],
        points: Points,
        body: CpuBlock,
    ) -> None:
        """Writes a step of rows that run together."""
        at = self.writer.counter(variable)
        rows = [_place_all(points, loop, at.shift(row)) for row in range(step)]
        self._write_loops(rest, [places for row in rows for places in row], body)

    def _write_one_by_one(
        self,
        loop: NestLoop,
        variable: int,
        steps: tuple[int, int, int],
        rest: list[NestLoop],
        points: Points,
        body: CpuBlock,
    ) -> None:
        """Writes the rows of a step in a loop."""
        start, stop, step = steps
        first = self.writer.axis(variable)
        row = self.writer.variable(loop.name, start, stop - 1)
        inner = body.inner({row})
        self._write_loops(_single_rows(rest), _place_all(points, loop, self.writer.axis(row)), inner)
        body.loop(inner, row, first, first.shift(step))

    def _interior(self, loop: NestLoop) -> tuple[int, int] | None:
        """The rows whose reductions read no padding, if others do."""
        axes = loop.group.axes
        if not loop.split or not self._reduces or len(axes) > 1 or axes[0] in self.ev.core.sequential_axes:
            return None
        return self.ev.loops.interior(self.shape, axes[0])

    def _write_vectors(self, loop: NestLoop, rest: list[NestLoop], points: Points, block: CpuBlock) -> None:
        """Writes loops along one axis: whole steps of the plan's width, then single registers, then a tail; separately
        for every range between points where padding begins or ends."""
        width, lanes = loop.width, self.writer.lanes
        for low, high in self._ranges(loop):
            steps = high - (high - low) % width
            whole = high - (high - low) % lanes
            for start, stop, step, count in (
                (low, steps, width, lanes),
                (steps, whole, lanes, lanes),
                (whole, high, lanes, high - whole),
            ):
                if start >= stop:
                    continue
                last = stop - 1 if count < lanes else stop - step + lanes - 1
                variable = self.writer.variable(loop.name, start, last)
                axis = LaneAxis(variable, None if count == lanes else count, aligned=start % lanes == 0)
                body = block.inner({variable}, lane_axis=axis, sequential=loop.blocks == 1)
                at = self.writer.counter(variable)
                units = [_place_all(points, loop, at.shift(lanes * unit)) for unit in range(step // lanes)]
                self._write_loops(rest, [places for unit in units for places in unit], body)
                self._add_loop(loop, body, variable, (start, stop, step), block)

    def _add_loop(
        self,
        loop: NestLoop,
        body: CpuBlock,
        variable: int,
        steps: tuple[int, int, int],
        block: CpuBlock,
    ) -> None:
        """Adds the loop (start, stop, step), or its part in this block; only whole steps begin inside blocks."""
        start, stop, step = steps
        if loop.group in self._origins and loop.blocks > 1:
            begin = self._origins[loop.group] if start == 0 else AxisExpr(start)
            block.loop(body, variable, begin, self._origins[loop.group].shift(loop.tile), step, stop)
        else:
            block.loop(body, variable, AxisExpr(start), AxisExpr(stop), step)

    def _ranges(self, loop: NestLoop) -> list[tuple[int, int]]:
        cuts: list[int] = []
        if loop.blocks == 1 and len(loop.group.axes) == 1:
            cuts = self.ev.loops.interior_cuts(self.shape, loop.group.axes[0], self.writer.lanes)
        edges = [0, *cuts, loop.extent]
        return list(itertools.pairwise(edges))

    # --- points ---

    def _write_points(self, several: Points, block: CpuBlock) -> None:
        """Writes all outputs at the given points. Reductions that can share loops are computed together."""
        points = [self._coordinates(places) for places in several]
        self._compute_streams(points, block)
        self._compute_reductions(points, block)
        yields = self.ev.region.yields
        together = [yields] if is_over_an_input(self.ev.region) else [(result,) for result in yields]
        for point in points:
            for results in together:  # all are computed before one is stored over an input of another
                for value in [self._value_at(result, point, block) for result in results]:
                    self._store(value)

    def _value_at(self, result: Yield, point: tuple[AxisExpr, ...], block: CpuBlock) -> _Stored:
        """One element or register of an output, outside of the loops on which it does not depend."""
        if result.at is not None:
            point = tuple(substitute(expr, point, self.writer.box) for expr in result.at.exprs)
            block = block.home(axes_of(point))
        value = block.find(("written", result.buffer, point)) or self.ev.stored_value(result, point, block, ())
        if is_over_an_input(self.ev.region):
            value = block.let("new", value)
        return _Stored(result.buffer, point, value, block)

    def _store(self, value: _Stored) -> None:
        """Stores one element or register of an output, once."""
        key = ("written", value.buffer, value.point)
        if value.block.find(key) is None:
            value.block.store(value.buffer, self.ev.offset(value.buffer, value.point), value.value)
            value.block.memo[key] = value.value

    def _coordinates(self, places: Sequence[_LoopPoint]) -> tuple[AxisExpr, ...]:
        position: dict[int, AxisExpr] = {}
        for place in places:
            group = place.loop.group
            position.update(zip(group.axes, coordinates(place.at, group.sizes, self.writer.box), strict=True))
        return tuple(position[axis] for axis in range(len(self.shape)))

    def _compute_streams(self, points: Sequence[tuple[AxisExpr, ...]], block: CpuBlock) -> None:
        """Computes the streams at these points, with the maxima of their scores; streams over equal axes together."""
        pending: dict[tuple[int, ...], list[lower_stream.StreamRequest]] = {}
        for site in self.ev.core.sites:
            op = self.ev.ops[site.value]
            score = score_read(op, site) if self._is_requested(site) else None
            if score is None:
                continue
            for point in points:
                at = tuple(substitute(expr, point, self.writer.box) for expr in site.map.exprs)
                shared = tuple(point[axis] for axis in sorted(support(score[1])) if axis < len(point))
                request = lower_stream.StreamRequest(site.value, at, (score, shared))
                pending.setdefault(op.domain[len(op.shape) :], []).append(request)
        for requests in pending.values():
            lower_stream.streams(self.ev, requests, block)

    def _is_requested(self, site: Site) -> bool:
        """Whether an accumulator is needed at the points of the outputs, and is not provided."""
        own = site.scope == self.ev.loops.scope and site.map.sizes == self.shape
        return own and not site.map.guards and site.value not in self.ev.provided

    def _compute_reductions(self, points: Sequence[tuple[AxisExpr, ...]], block: CpuBlock) -> None:
        """Computes the reductions at these points, in the body's order; reductions with equal loops together."""
        position = {let.name: number for number, let in enumerate(self.ev.region.body)}
        pending: list[lower_reduce.ReductionRequest] = []
        for site in sorted(self.ev.core.sites, key=lambda site: position[site.value]):
            op = self.ev.ops[site.value]
            if op.kind != "reduce" or not self._is_requested(site):
                continue
            if pending and not self._can_join(pending[-1].name, site.value):
                lower_reduce.reductions(self.ev, pending, block)
                pending = []
            for point in points:
                at = tuple(substitute(expr, point, self.writer.box) for expr in site.map.exprs)
                pending.append(lower_reduce.ReductionRequest(site.value, at))
        if len(pending) > 1:  # a lone reduction is computed where its value is read
            lower_reduce.reductions(self.ev, pending, block)

    def _can_join(self, first: str, second: str) -> bool:
        """Whether two reductions run over equal axes and the second does not need the first."""
        a, b = self.ev.ops[first], self.ev.ops[second]
        alike = a.domain[len(a.domain) - a.reduced :] == b.domain[len(b.domain) - b.reduced :]
        return alike and not self.ev.needs(second, first) and self.ev.groups(first) == self.ev.groups(second)


def nest_comment(region: Region, plan: CpuNestPlan) -> str:
    """The comment above the kernel in the C text: the region, then the plan."""
    schedule = plan_to_schedule(plan)
    lines = [str(region), f"plan {plan.arch}: nest {' '.join(loop.name for loop in plan.loops) or 'none'}"]
    lines[-1] += f", tile {list(schedule.tile)}, bind {schedule.bind}"
    if schedule.vectorize:
        lines[-1] += f", {schedule.vectorize.width} elements a step along {schedule.vectorize.axis}"
    if schedule.warp_tile:
        lines[-1] += f", {plan.rows} rows together"
    if schedule.predicate_tail:
        lines[-1] += f", tails along {', '.join(schedule.predicate_tail)}"
    return "\n".join([*lines, *schedule.notes])
