"""Reductions at a point: loops over the reduced axes, where the other axes have values.

    R[i] = sum over r of x[i, r]                      R[j] = sum over r of x[r, j], lanes along j
      s0 = s1 = 0                                       s = 0
      for r in 0 .. n step 2*lanes                      for r in 0 .. n
        s0 = add(s0, x[n*i + r : unit])                   s = add(s, x[n*r + j : unit])
        s1 = add(s1, x[n*i + r + lanes : unit])
      R = hsum(add(s0, s1))

Long floating-point sums are summed in parts, so that their error does not grow with their length. Where the plan asks
for index order, lanes only compute the terms, which are then added one by one to one accumulator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.lower.accumulators import PART, Joining
from codegen.lower.cpu.builder import CpuBlock, LaneAxis
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.lower.cpu.lane_values import convert
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.region_loops import Group
from ir.dtype import DTYPES
from ir.index.expr import AxisExpr, coordinates
from ir.kernel.cpu.nodes import CpuCall, Inside, Value
from ir.kernel.nodes import Reg
from ir.region.region import Number, Op, Operand

_CHAINS = 4
"""Accumulators of a reduction along lanes, over all rows that run together: they hide the latency of an addition."""
_UNROLLED_POINTS = 49
"""Points of reduced axes up to which loops are unrolled: a window of 7 × 7."""
_UNROLLED_TERMS = 196
"""Terms of all reductions that run together up to which their loops are unrolled: four windows of 7 × 7. gcc took 2.9 s
for sixteen of them."""


@dataclass(frozen=True)
class ReductionRequest:
    """The reduction `name` at `point`."""

    name: str
    point: Point


def reduction(ev: LaneEvaluator, name: str, op: Op, point: Point, block: CpuBlock, where: Where) -> Value:
    """The value of a reduce op at `point`, computed in `block`."""
    return _values_in_one_nest(ev, [ReductionRequest(name, point)], block, where)[0]


def reductions(ev: LaneEvaluator, requests: Sequence[ReductionRequest], block: CpuBlock) -> None:
    """Computes reductions over equal axes in shared loops, and stores them where `LaneEvaluator.value` finds them."""
    missing = [request for request in requests if block.find((request.name, request.point, ())) is None]
    by_home: dict[int, list[ReductionRequest]] = {}
    homes: dict[int, CpuBlock] = {}
    for request in dict.fromkeys(missing):
        home = block.home(axes_of(request.point))
        homes[id(home)] = home
        by_home.setdefault(id(home), []).append(request)
    for key, together in by_home.items():
        for request, value in zip(together, _values_in_one_nest(ev, together, homes[key], ()), strict=True):
            homes[key].memo[(request.name, request.point, ())] = homes[key].let(request.name, value)


def accumulate(ev: LaneEvaluator, names: Sequence[str], point: Point, block: CpuBlock) -> list[Value]:
    """Reductions over equal axes at `point`, in the dtypes of their accumulators."""
    return _totals(ev, [_PointSum.of(ev, ReductionRequest(name, point), ()) for name in names], block)


def start(ev: LaneEvaluator, name: str, block: CpuBlock) -> Reg:
    """A new accumulator of the reduction `name`, with the identity in it."""
    return _PointSum.of(ev, ReductionRequest(name, ()), ()).start(block)


def convert_to_result(ev: LaneEvaluator, name: str, total: Value) -> Value:
    """The accumulator's value in the reduction's own dtype."""
    return convert(total, total.dtype, ev.ops[name].dtype)


def _values_in_one_nest(
    ev: LaneEvaluator, requests: Sequence[ReductionRequest], block: CpuBlock, where: Where
) -> list[Value]:
    sums = [_PointSum.of(ev, request, where) for request in requests]
    totals = _totals(ev, sums, block)
    return [
        convert(total, point_sum.how.dtype, point_sum.op.dtype) for total, point_sum in zip(totals, sums, strict=True)
    ]


def _totals(ev: LaneEvaluator, sums: Sequence[_PointSum], block: CpuBlock) -> list[Value]:
    op = sums[0].op
    if 0 in op.domain[len(op.domain) - op.reduced :]:
        return [point_sum.how.identity for point_sum in sums]
    groups = ev.groups(sums[0].request.name)
    nest = _ReductionLoops(ev, sums)
    in_lanes = any(block.moves_in_lanes(axes_of(point_sum.request.point, point_sum.where)) for point_sum in sums)
    if in_lanes or all(group.extent == 1 for group in groups):
        return nest.serial(groups, block)
    return nest.along_lanes(groups[:-1], groups[-1], block)


@dataclass(frozen=True)
class _PointSum:
    """One reduction at one point: its terms, and the function that combines terms."""

    ev: LaneEvaluator
    request: ReductionRequest
    op: Op
    where: Where
    how: Joining

    @staticmethod
    def of(ev: LaneEvaluator, request: ReductionRequest, where: Where) -> _PointSum:
        op = ev.ops[request.name]
        return _PointSum(ev, request, op, where, ev.joining(op))

    @property
    def in_order(self) -> bool:
        """Whether terms are added in index order."""
        return self.ev.loops.in_order(self.request.name)

    @property
    def in_parts(self) -> bool:
        """Whether long runs are summed in parts: their error grows with the number of terms."""
        return self.op.fn == "sum" and DTYPES[self.how.dtype].is_float and not self.in_order

    def term(self, reduced: Point, block: CpuBlock) -> Value:
        (term,) = self._evaluate(self.op.inputs, (*self.request.point, *reduced), block)
        return convert(term, self.how.source, self.how.dtype)

    @property
    def product(self) -> str | None:
        """The product whose factors are multiplied and added in one step; None where the terms are added."""
        name = self.ev.loops.fused_product(self.request.name)
        return None if name in self.ev.rows or name in self.ev.provided else name

    def factors(self, product: str, reduced: Point, block: CpuBlock) -> tuple[Value, Value]:
        """The factors of the term."""
        (term,) = self.op.operands
        point = self.ev.writer.at(term.map.exprs, (*self.request.point, *reduced))
        one, other = self._evaluate(self.ev.ops[product].inputs, point, block)
        return one, other

    def _evaluate(self, operands: Sequence[Operand | Number], point: Point, block: CpuBlock) -> list[Value]:
        around, self.ev.filling = self.ev.filling, self.request.name
        values = [self.ev.operand(operand, point, block, self.where) for operand in operands]
        self.ev.filling = around
        return values

    def start(self, block: CpuBlock) -> Reg:
        register = block.let(f"{self.request.name}_acc", self.how.identity, mutable=True)
        assert isinstance(register, Reg)
        return register


Totals = Sequence[Sequence[Reg]]
"""Per reduction: its accumulators."""
Place = Mapping[Group, AxisExpr]
"""Loop over reduced axes → its position."""


@dataclass(frozen=True)
class _Innermost:
    """The innermost loops over reduced axes. `add` writes them, they add `trips` times; `parted`: to the totals of a
    part."""

    add: Callable[[Place, Totals, CpuBlock], None]
    trips: int
    parted: bool = False


@dataclass(frozen=True)
class _ReductionLoops:
    """The loops that several reductions share."""

    ev: LaneEvaluator
    sums: Sequence[_PointSum]

    def serial(self, groups: Sequence[Group], block: CpuBlock) -> list[Value]:
        """One term after another; lanes are different results."""
        totals = [[point_sum.start(block)] for point_sum in self.sums]
        first = self._first_unrolled(groups)
        unrolled = groups[first:]
        if unrolled:

            def innermost(place: Place, sums: Totals, inside: CpuBlock) -> None:
                for numbers in itertools.product(*(range(group.extent) for group in unrolled)):
                    at = dict(zip(unrolled, map(AxisExpr, numbers), strict=True))
                    self._add(sums, {**place, **at}, inside)

            trips = math.prod(group.extent for group in unrolled)
            self._loop_nest(groups[:first], {}, totals, block, _Innermost(innermost, trips))
        else:
            *outer, last = groups

            def innermost(place: Place, sums: Totals, inside: CpuBlock) -> None:
                loop = _Loop(last.name, 0, last.extent, 1)
                self._loop(loop, sums, inside, lambda at, into, body: self._add(into, {**place, last: at}, body))

            self._loop_nest(outer, {}, totals, block, _Innermost(innermost, last.extent))
        return [registers[0] for registers in totals]

    def _first_unrolled(self, groups: Sequence[Group]) -> int:
        """The first of the groups whose loops are unrolled."""
        points, first = 1, len(groups)
        while first and points * groups[first - 1].extent <= min(_UNROLLED_POINTS, _UNROLLED_TERMS // len(self.sums)):
            first -= 1
            points *= groups[first].extent
        return first

    def along_lanes(self, outer: Sequence[Group], lane: Group, block: CpuBlock) -> list[Value]:
        """Lanes are neighbouring terms along `lane`; at the end the lanes of a register are combined."""
        width = self.ev.writer.lanes
        in_order = any(point_sum.in_order for point_sum in self.sums)
        rows = len({point_sum.request.point for point_sum in self.sums})
        chains = 1 if in_order else max(1, min(_CHAINS // rows, lane.extent // width))
        totals = [[point_sum.start(block) for _ in range(chains)] for point_sum in self.sums]

        def innermost(place: Place, sums: Totals, inside: CpuBlock) -> None:
            self._lane_loops(lane, place, sums, inside)

        self._loop_nest(outer, {}, totals, block, _Innermost(innermost, -(-lane.extent // (width * chains))))
        return [self._join_registers(point_sum, own) for point_sum, own in zip(self.sums, totals, strict=True)]

    def _loop_nest(
        self, groups: Sequence[Group], place: Place, totals: Totals, block: CpuBlock, innermost: _Innermost
    ) -> None:
        """Loops over `groups`, around `innermost`."""
        if not groups:
            innermost.add(place, totals, block)
            return
        group, *rest = groups
        below = math.prod(inner.extent for inner in rest) * innermost.trips
        long = below * group.extent > PART and below >= _UNROLLED_POINTS
        part = long and self._in_parts and not innermost.parted

        def emit(at: AxisExpr, sums: Totals, body: CpuBlock) -> None:
            parts = self._start(sums, body) if part else sums
            within = replace(innermost, parted=innermost.parted or part)
            self._loop_nest(rest, {**place, group: at}, parts, body, within)
            if part:
                self._add_parts(sums, parts, body)

        self._loop(_Loop(group.name, 0, group.extent, 1), totals, block, emit, plain=True)

    def _lane_loops(self, lane: Group, place: Place, totals: Totals, block: CpuBlock) -> None:
        """Loops over the vectors of one row: one vector per accumulator at a time, then single vectors, then a tail."""
        width = self.ev.writer.lanes
        chains = len(totals[0])
        unrolled = lane.extent - lane.extent % (width * chains)
        whole = lane.extent - lane.extent % width

        def emit(at: AxisExpr, sums: Totals, body: CpuBlock) -> None:
            for chain in range(len(sums[0])):
                one = [[registers[chain]] for registers in sums]
                self._add(one, {**place, lane: at.shift(width * chain)}, body, along_lanes=True)

        first = [registers[:1] for registers in totals]
        self._loop(_Loop(lane.name, 0, unrolled, width * chains, width), totals, block, emit)
        self._loop(_Loop(lane.name, unrolled, whole, width, width), first, block, emit)
        self._loop(_Loop(lane.name, whole, lane.extent, width, lane.extent - whole), first, block, emit)

    def _loop(
        self,
        loop: _Loop,
        totals: Totals,
        block: CpuBlock,
        emit: Callable[[AxisExpr, Totals, CpuBlock], None],
        *,
        plain: bool = False,
    ) -> None:
        """`emit` at every step, in parts of `PART` steps where there are many."""
        if loop.start >= loop.stop:
            return
        writer = self.ev.writer
        variable = writer.variable(loop.name, loop.start, loop.last)
        lanes = loop.lane_axis(variable, writer.lanes)
        if plain or not self._in_parts or loop.trips <= 2 * PART:
            body = block.inner({variable}, lane_axis=lanes)
            emit(writer.counter(variable), totals, body)
            block.loop(body, variable, AxisExpr(loop.start), AxisExpr(loop.stop), loop.step)
            return
        chunk = PART * loop.step
        origin = writer.variable(f"{loop.name}o", loop.start, loop.stop - 1)
        around = block.inner({origin})
        parts = self._start(totals, around)
        body = around.inner({variable}, lane_axis=lanes)
        emit(writer.counter(variable), parts, body)
        start = writer.axis(origin)
        around.loop(body, variable, start, start.shift(chunk), loop.step, loop.stop)
        self._add_parts(totals, parts, around)
        block.loop(around, origin, AxisExpr(loop.start), AxisExpr(loop.stop), chunk)

    def _add(self, totals: Totals, place: Place, block: CpuBlock, *, along_lanes: bool = False) -> None:
        """Adds the terms at `place` to the first accumulators. Where lanes are terms, the lanes of a tail that are no
        terms add nothing."""
        box = self.ev.writer.box
        reduced: dict[int, AxisExpr] = {}
        for group, at in place.items():
            reduced.update(zip(group.axes, coordinates(at + group.origin, group.sizes, box), strict=True))
        point = tuple(reduced[axis] for axis in sorted(reduced))
        lane = block.lane_axis
        cut = along_lanes and lane is not None and lane.count is not None
        for point_sum, registers in zip(self.sums, totals, strict=True):
            if not cut and (product := point_sum.product) is not None:
                factors = point_sum.factors(product, point, block)
                block.assign(registers[0], CpuCall("fma", (*factors, registers[0]), point_sum.how.dtype))
                continue
            term = point_sum.term(point, block)
            if cut:
                assert lane is not None
                mask = Inside((), lane.variable, lane.count)
                term = CpuCall("where", (mask, term, point_sum.how.identity), point_sum.how.dtype)
            if along_lanes and point_sum.in_order:
                running = CpuCall(f"run{point_sum.how.fn}", (registers[0], term), point_sum.how.dtype)
                block.assign(registers[0], CpuCall("last", (running,), point_sum.how.dtype))
            else:
                block.accumulate(registers[0], point_sum.how.fn, term)

    def _start(self, totals: Totals, block: CpuBlock) -> Totals:
        return [[point_sum.start(block) for _ in own] for point_sum, own in zip(self.sums, totals, strict=True)]

    def _add_parts(self, totals: Totals, parts: Totals, block: CpuBlock) -> None:
        for point_sum, registers, new in zip(self.sums, totals, parts, strict=True):
            for register, part in zip(registers, new, strict=True):
                block.accumulate(register, point_sum.how.fn, part)

    def _join_registers(self, point_sum: _PointSum, registers: Sequence[Reg]) -> Value:
        total: Value = registers[0]
        if point_sum.in_order:
            return total
        fn, dtype = point_sum.how.fn, point_sum.how.dtype
        for other in registers[1:]:
            total = CpuCall(fn, (total, other), dtype)
        return CpuCall({"add": "hsum", "mul": "hprod", "max": "hmax", "min": "hmin"}[fn], (total,), dtype)

    @property
    def _in_parts(self) -> bool:
        return any(point_sum.in_parts for point_sum in self.sums)


@dataclass(frozen=True)
class _Loop:
    """A loop from `start` to `stop` by `step`. `lanes` neighbours share a register; 0: the loop has no lanes."""

    name: str
    start: int
    stop: int
    step: int
    lanes: int = 0

    @property
    def trips(self) -> int:
        return -(-(self.stop - self.start) // self.step)

    @property
    def last(self) -> int:
        """The greatest value of the variable in any lane of the first register of a step."""
        return self.start + (self.trips - 1) * self.step + max(self.lanes, 1) - 1

    def lane_axis(self, variable: int, width: int) -> LaneAxis | None:
        if not self.lanes:
            return None
        return LaneAxis(variable, None if self.lanes == width else self.lanes, aligned=self.start % width == 0)
