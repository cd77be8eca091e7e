"""Streams at a point: the sums of exponentials of one score in one pass, with a running maximum.

    A[i] = Σ over r of e^(x[i, r] - m)·v[r], L[i] = Σ over r of e^(x[i, r] - m)
      m = -inf, A = L = 0
      for r in 0 .. n step 8                                 one rescaling for several terms
        top = max(m, x[i, r], … x[i, r + 7])
        shrink = exp(m - top)
        p0 = exp(x[i, r] - top), …
        A = A·shrink + p0·v[r] + …, L = L·shrink + p0 + …
        m = top

Lanes are different results, or different terms. Where lanes are terms, every lane has its own maximum, and lanes are
combined at the end. A maximum of -inf counts as 0 until then: the terms before the first finite score weigh 0.
The online form is that of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from codegen.lower.accumulators import PART
from codegen.lower.conversions import constant
from codegen.lower.cpu.builder import CpuBlock, LaneAxis
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.lower.cpu.lane_values import convert
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.region_loops import Group
from codegen.plan.stream_view import stream_dtype
from ir.dtype import dtype
from ir.index.expr import AxisExpr, coordinates
from ir.kernel.cpu.nodes import CpuCall, Inside, Value
from ir.kernel.nodes import Reg
from ir.region.region import Number, Op

Place = Mapping[Group, AxisExpr]
"""Loop over reduced axes → its position."""


@dataclass(frozen=True)
class StreamRequest:
    """The stream, or the maximum, `name` at `point`. Requests with one `score` have the same scores."""

    name: str
    point: Point
    score: Hashable = None


def stream(ev: LaneEvaluator, name: str, point: Point, block: CpuBlock, where: Where) -> Value:
    """The value of a stream at `point`, computed in `block`."""
    return _values_in_one_pass(ev, [StreamRequest(name, point)], block, where)[0]


def streams(ev: LaneEvaluator, requests: Sequence[StreamRequest], block: CpuBlock) -> None:
    """Computes streams over equal axes, and the maxima of their scores, in shared loops, and stores them where
    `LaneEvaluator.value` finds them."""
    by_home: dict[int, tuple[CpuBlock, list[StreamRequest]]] = {}
    for request in dict.fromkeys(requests):
        if block.find((request.name, request.point, ())) is None:
            home = block.home(axes_of(request.point))
            by_home.setdefault(id(home), (home, []))[1].append(request)
    for home, together in by_home.values():
        summed = {request.score for request in together if ev.ops[request.name].kind == "stream"}
        wanted = [request for request in together if request.score in summed]
        for request, value in zip(wanted, _values_in_one_pass(ev, wanted, home, ()) if wanted else [], strict=True):
            home.memo[request.name, request.point, ()] = home.let(request.name, value)


def finite_or_zero(top: Value) -> Value:
    """The number that is subtracted from scores: their maximum, or 0 where all are -inf."""
    none = CpuCall("cmpeq", (top, constant("-inf", top.dtype)), "bool")
    return CpuCall("where", (none, constant(0, top.dtype), top), top.dtype)


def nan_if_infinite(total: Value, top: Value) -> Value:
    """The sum, but NaN where the maximum is infinite, since ∞ - ∞ is NaN."""
    return CpuCall("add", (total, CpuCall("sub", (top, top), top.dtype)), total.dtype)


def weight(fn: str, score: Value, base: Value) -> Value:
    """fn(score - base)."""
    return CpuCall(fn, (CpuCall("sub", (score, base), score.dtype),), score.dtype)


def _values_in_one_pass(
    ev: LaneEvaluator, requests: Sequence[StreamRequest], block: CpuBlock, where: Where
) -> list[Value]:
    lead = next(request for request in requests if ev.ops[request.name].kind == "stream")
    op = ev.ops[lead.name]
    if 0 in op.domain[len(op.shape) :]:
        return [_empty_value(ev.ops[request.name]) for request in requests]
    groups = ev.groups(lead.name)
    in_lanes = any(block.moves_in_lanes(axes_of(request.point, where)) for request in requests)
    along = not in_lanes and any(group.extent > 1 for group in groups)
    by_score: dict[tuple[Hashable, str, str], list[StreamRequest]] = {}
    for request in requests:
        stream_op = ev.ops[request.name]
        if stream_op.kind == "stream":
            key = request.score, stream_op.fn, stream_dtype(ev.region, stream_op)
            by_score.setdefault(key, []).append(request)
    scores = [_ScoreSums(ev, fn, kind, sharing, where) for (_, fn, kind), sharing in by_score.items()]
    tops: dict[Hashable, Value] = {}
    sums: dict[StreamRequest, Value] = {}
    for score, (top, totals) in zip(scores, _StreamPass(ev, scores, along).run(groups, block), strict=True):
        tops[score.requests[0].score] = top
        sums.update(zip(score.requests, totals, strict=True))
    values = [sums[request] if request in sums else tops[request.score] for request in requests]
    return [
        convert(value, value.dtype, ev.ops[request.name].dtype) for request, value in zip(requests, values, strict=True)
    ]


def _empty_value(op: Op) -> Value:
    """The value of a stream or maximum without terms."""
    return constant(0 if op.kind == "stream" else dtype(op.dtype).lowest, op.dtype)


@dataclass(frozen=True)
class _ScoreSums:
    """The streams of one score: sums of fn(score - maximum)·value in dtype `kind`."""

    ev: LaneEvaluator
    fn: str
    kind: str
    requests: Sequence[StreamRequest]
    where: Where

    def score(self, reduced: Point, block: CpuBlock) -> Value:
        return self._operand(self.requests[0], 0, reduced, block)

    def values(self, reduced: Point, block: CpuBlock) -> list[Value | None]:
        """Per request: the factor of a term's weight; None for 1."""
        return [
            None if self._is_one(request) else self._operand(request, 1, reduced, block) for request in self.requests
        ]

    def _is_one(self, request: StreamRequest) -> bool:
        value = self.ev.ops[request.name].inputs[1]
        return isinstance(value, Number) and value.number == 1

    def _operand(self, request: StreamRequest, slot: int, reduced: Point, block: CpuBlock) -> Value:
        operand = self.ev.ops[request.name].inputs[slot]
        source = operand.dtype if isinstance(operand, Number) else self.ev.dtype(operand.value)
        return convert(self.ev.operand(operand, (*request.point, *reduced), block, self.where), source, self.kind)

    def start(self, block: CpuBlock) -> _RunningSums:
        top = block.let("top", constant("-inf", self.kind), mutable=True)
        zero = constant(0, self.kind)
        sums = [block.let(f"{request.name}_acc", zero, mutable=True) for request in self.requests]
        return _RunningSums(_register(top), tuple(map(_register, sums)))


@dataclass(frozen=True)
class _RunningSums:
    """The maximum of the terms so far, and the sums that are relative to it."""

    top: Reg
    sums: Sequence[Reg]


@dataclass(frozen=True)
class _StreamPass:
    """One pass over the terms of several streams. `along`: lanes are terms."""

    ev: LaneEvaluator
    scores: Sequence[_ScoreSums]
    along: bool

    def run(self, groups: Sequence[Group], block: CpuBlock) -> list[tuple[Value, list[Value]]]:
        """Per score its maximum and the sums, after loops over `groups` in `block`."""
        states = [score.start(block) for score in self.scores]
        self._loop_nest(groups, {}, states, block)
        finish = self._join_lanes if self.along else _finish
        return [finish(score, state, block) for score, state in zip(self.scores, states, strict=True)]

    def _loop_nest(
        self, groups: Sequence[Group], place: Place, states: Sequence[_RunningSums], block: CpuBlock
    ) -> None:
        group, *rest = groups
        if not rest:
            self._innermost_loops(group, place, states, block)
            return
        variable = self.ev.writer.variable(group.name, 0, group.extent - 1)
        body = block.inner({variable})
        self._loop_nest(rest, {**place, group: self.ev.writer.counter(variable)}, states, body)
        block.loop(body, variable, AxisExpr(), AxisExpr(group.extent))

    def _innermost_loops(self, group: Group, place: Place, states: Sequence[_RunningSums], block: CpuBlock) -> None:
        """Loops of whole steps of several terms, then one step of the terms that remain; where lanes are terms, a tail
        of fewer lanes comes last."""
        width = self.ev.writer.lanes if self.along else 1
        assert self.ev.rescaled is not None
        terms = max(2, self.ev.rescaled // len(self.scores))
        stepped = group.extent - group.extent % (width * terms)
        whole = group.extent - group.extent % width
        self._loop(group, place, states, block, (0, stepped), terms, width)
        self._loop(group, place, states, block, (stepped, whole), max(1, (whole - stepped) // width), width)
        self._loop(group, place, states, block, (whole, group.extent), 1, group.extent - whole)

    def _loop(
        self,
        group: Group,
        place: Place,
        states: Sequence[_RunningSums],
        block: CpuBlock,
        span: tuple[int, int],
        terms: int,
        used: int,
    ) -> None:
        """A loop over `span` in steps of `terms` terms, or registers of `used` lanes; in parts if there are many
        steps."""
        start, stop = span
        if start >= stop:
            return
        writer = self.ev.writer
        step = terms * used
        last = stop - step + (used if self.along else 1) - 1
        variable = writer.variable(group.name, start, last)
        aligned = start % writer.lanes == step % writer.lanes == 0
        lanes = LaneAxis(variable, None if used == writer.lanes else used, aligned) if self.along else None
        at = writer.counter(variable)
        places = [{**place, group: at.shift(used * term)} for term in range(terms)]
        if (stop - start) // step <= 2 * PART:
            body = block.inner({variable}, lane_axis=lanes)
            self._step(places, states, body)
            block.loop(body, variable, AxisExpr(start), AxisExpr(stop), step)
            return
        origin = writer.variable(f"{group.name}o", start, stop - 1)
        around = block.inner({origin})
        parts = [score.start(around) for score in self.scores]
        body = around.inner({variable}, lane_axis=lanes)
        self._step(places, parts, body)
        first = writer.axis(origin)
        around.loop(body, variable, first, first.shift(PART * step), step, stop)
        for score, state, part in zip(self.scores, states, parts, strict=True):
            _add_part(score.fn, state, part, around)
        block.loop(around, origin, AxisExpr(start), AxisExpr(stop), PART * step)

    def _step(self, places: Sequence[Place], states: Sequence[_RunningSums], block: CpuBlock) -> None:
        """Adds the terms at `places`, rescaling once."""
        points = [self._term_point(place) for place in places]
        for streams, state in zip(self.scores, states, strict=True):
            scores = [self._mask(streams.score(point, block), "-inf", block) for point in points]
            top = block.let("top", CpuCall("max", (state.top, tree("max", scores)), streams.kind))
            base = block.let("base", finite_or_zero(top))
            shrink = block.let("shrink", weight(streams.fn, state.top, base))
            weights = [block.let("p", weight(streams.fn, score, base)) for score in scores]
            terms = [
                [self._term(value, p, block) for value in streams.values(point, block)]
                for p, point in zip(weights, points, strict=True)
            ]
            for number, total in enumerate(state.sums):
                added = tree("add", [of_term[number] for of_term in terms])
                block.assign(total, CpuCall("fma", (total, shrink, added), streams.kind))
            block.assign(state.top, top)

    def _term(self, value: Value | None, p: Value, block: CpuBlock) -> Value:
        return p if value is None else self._mask(CpuCall("mul", (p, value), p.dtype), 0, block)

    def _mask(self, value: Value, otherwise: float | str, block: CpuBlock) -> Value:
        """The value, but `otherwise` in the lanes of a tail that are no terms."""
        lane = block.lane_axis
        if not self.along or lane is None or lane.count is None:
            return value
        mask = Inside((), lane.variable, lane.count)
        return block.let("term", CpuCall("where", (mask, value, constant(otherwise, value.dtype)), value.dtype))

    def _term_point(self, place: Place) -> Point:
        box = self.ev.writer.box
        reduced: dict[int, AxisExpr] = {}
        for group, at in place.items():
            reduced.update(zip(group.axes, coordinates(at + group.origin, group.sizes, box), strict=True))
        return tuple(reduced[axis] for axis in sorted(reduced))

    def _join_lanes(self, score: _ScoreSums, state: _RunningSums, block: CpuBlock) -> tuple[Value, list[Value]]:
        """Combines the maxima and sums of the lanes, which are terms."""
        top = block.let("top", CpuCall("hmax", (state.top,), score.kind))
        base = block.let("base", finite_or_zero(top))
        shrink = block.let("shrink", weight(score.fn, state.top, base))
        scaled = (CpuCall("mul", (total, shrink), score.kind) for total in state.sums)
        return top, [nan_if_infinite(CpuCall("hsum", (total,), score.kind), top) for total in scaled]


def _finish(_score: _ScoreSums, state: _RunningSums, _block: CpuBlock) -> tuple[Value, list[Value]]:
    return state.top, [nan_if_infinite(total, state.top) for total in state.sums]


def _add_part(fn: str, state: _RunningSums, part: _RunningSums, block: CpuBlock) -> None:
    """Adds the sums of a part of the terms to the sums of all."""
    kind = state.top.dtype
    top = block.let("top", CpuCall("max", (state.top, part.top), kind))
    base = block.let("base", finite_or_zero(top))
    shrink = block.let("shrink", weight(fn, state.top, base))
    scale = block.let("scale", weight(fn, part.top, base))
    for total, added in zip(state.sums, part.sums, strict=True):
        block.assign(total, CpuCall("fma", (total, shrink, CpuCall("mul", (added, scale), kind)), kind))
    block.assign(state.top, top)


def tree(fn: str, values: Sequence[Value]) -> Value:
    """The values combined in pairs, so that no operation waits for all values before it."""
    level = list(values)
    while len(level) > 1:
        pairs = [CpuCall(fn, pair, pair[0].dtype) for pair in zip(level[::2], level[1::2], strict=False)]
        level = [*pairs, *level[len(pairs) * 2 :]]
    return level[0]


def _register(value: Value) -> Reg:
    assert isinstance(value, Reg)
    return value
