"""Streams at a point: the sums of exponentials of one score in one pass, with a running maximum.

    A[i] = Σ over r of e^(x[i, r] - m)·v[r], L[i] = Σ over r of e^(x[i, r] - m)
      m = -inf, A = L = 0
      for r in 0 .. n step 8                                 one rescaling for several terms
        top = max(m, x[i, r], … x[i, r + 7])
        shrink = exp(m - top)
        p0 = exp(x[i, r] - top), …
        A = A·shrink + p0·v[r] + …, L = L·shrink + p0 + …
        m = top

Lanes are different results, or terms: then each lane has a maximum of its own, and they are joined at the end. A
maximum of -inf counts as 0 until then, so that terms of weight 0 come before the first finite score.
The online form is that of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from codegen.lower.conversions import constant
from codegen.lower.cpu.blocks import CpuBlock, LaneAxis
from codegen.lower.cpu.lane_evaluator import LaneEvaluator
from codegen.lower.cpu.lane_values import converted
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.region_loops import Group
from codegen.plan.stream_view import stream_dtype
from ir.diagnostics import Kind, fail
from ir.dtype import dtype
from ir.index.expr import AxisExpr, coordinates
from ir.kernel.cpu.nodes import CpuCall, Inside, Value
from ir.kernel.nodes import Reg
from ir.region.region import Number, Op

STAGE = "lower_stream"
_PART = 256
"""Steps that add to one accumulator before it is put away: the error of a long sum grows with its length."""

Place = Mapping[Group, AxisExpr]
"""Where the loops over reduced axes are."""


@dataclass(frozen=True)
class StreamRequest:
    """The stream, or the maximum, `name` at `point`. Requests of one `score` share its terms' values."""

    name: str
    point: Point
    score: Hashable = None


def stream(ev: LaneEvaluator, name: str, point: Point, block: CpuBlock, where: Where) -> Value:
    """The value of a stream at `point`, computed in `block`."""
    return _together(ev, [StreamRequest(name, point)], block, where)[0]


def streams(ev: LaneEvaluator, requests: Sequence[StreamRequest], block: CpuBlock) -> None:
    """Computes streams over like axes, and the maxima of their scores, in shared loops, so that `LaneEvaluator.value`
    finds them afterwards."""
    by_home: dict[int, tuple[CpuBlock, list[StreamRequest]]] = {}
    for distinct in dict.fromkeys(requests):
        if block.find((distinct.name, distinct.point, ())) is None:
            home = block.home(axes_of(distinct.point))
            by_home.setdefault(id(home), (home, []))[1].append(distinct)
    for home, alike in by_home.values():
        summed = {request.score for request in alike if ev.ops[request.name].kind == "stream"}
        wanted = [request for request in alike if request.score in summed]
        for request, value in zip(wanted, _together(ev, wanted, home, ()) if wanted else [], strict=True):
            home.memo[request.name, request.point, ()] = home.let(request.name, value)


def finite_or_zero(top: Value) -> Value:
    """What scores are compared with: their maximum, or 0 where all of them are -inf."""
    none = CpuCall("cmpeq", (top, constant("-inf", top.dtype)), "bool")
    return CpuCall("where", (none, constant(0, top.dtype), top), top.dtype)


def defined(total: Value, top: Value) -> Value:
    """The sum, but NaN where the maximum is infinite: ∞ - ∞ is no number."""
    return CpuCall("add", (total, CpuCall("sub", (top, top), top.dtype)), total.dtype)


def weight(fn: str, score: Value, base: Value) -> Value:
    """fn(score - base)."""
    return CpuCall(fn, (CpuCall("sub", (score, base), score.dtype),), score.dtype)


def _together(ev: LaneEvaluator, requests: Sequence[StreamRequest], block: CpuBlock, where: Where) -> list[Value]:
    lead = next(request for request in requests if ev.ops[request.name].kind == "stream")
    op = ev.ops[lead.name]
    if ev.loops.in_order(lead.name):
        fail(
            Kind.UNSUPPORTED_OP, STAGE, "the terms of a stream are rescaled together, not in index order", at=lead.name
        )
    if 0 in op.domain[len(op.shape) :]:
        return [_nothing(ev.ops[request.name]) for request in requests]
    groups = ev.groups(lead.name)
    in_lanes = any(block.moves_in_lanes(axes_of(request.point, where)) for request in requests)
    along = not in_lanes and any(group.extent > 1 for group in groups)
    shares: dict[tuple[Hashable, str, str], list[StreamRequest]] = {}
    for request in requests:
        if ev.ops[request.name].kind == "stream":
            shares.setdefault(
                (request.score, ev.ops[request.name].fn, stream_dtype(ev.region, ev.ops[request.name])), []
            ).append(request)
    passes = [_Sums(ev, fn, kind, alike, where) for (_, fn, kind), alike in shares.items()]
    tops: dict[Hashable, Value] = {}
    found: dict[StreamRequest, Value] = {}
    for sums, (top, totals) in zip(passes, _StreamPass(ev, passes, along).run(groups, block), strict=True):
        tops[sums.requests[0].score] = top
        found.update(zip(sums.requests, totals, strict=True))
    values = [found[request] if request in found else tops[request.score] for request in requests]
    return [
        converted(value, value.dtype, ev.ops[request.name].dtype)
        for request, value in zip(requests, values, strict=True)
    ]


def _nothing(op: Op) -> Value:
    """The value over no terms."""
    return constant(0 if op.kind == "stream" else dtype(op.dtype).lowest, op.dtype)


@dataclass(frozen=True)
class _Sums:
    """The streams of one score: sums of fn(score - maximum)·value in dtype `kind`."""

    ev: LaneEvaluator
    fn: str
    kind: str
    requests: Sequence[StreamRequest]
    where: Where

    def score(self, reduced: Point, block: CpuBlock) -> Value:
        return self._operand(self.requests[0], 0, reduced, block)

    def values(self, reduced: Point, block: CpuBlock) -> list[Value | None]:
        """What a term's weight is multiplied with, by request; None for 1."""
        return [
            None if self._is_one(request) else self._operand(request, 1, reduced, block) for request in self.requests
        ]

    def _is_one(self, request: StreamRequest) -> bool:
        value = self.ev.ops[request.name].inputs[1]
        return isinstance(value, Number) and value.number == 1

    def _operand(self, request: StreamRequest, slot: int, reduced: Point, block: CpuBlock) -> Value:
        each = self.ev.ops[request.name].inputs[slot]
        source = each.dtype if isinstance(each, Number) else self.ev.dtype(each.value)
        return converted(self.ev.operand(each, (*request.point, *reduced), block, self.where), source, self.kind)

    def start(self, block: CpuBlock) -> _State:
        top = block.let("top", constant("-inf", self.kind), mutable=True)
        zero = constant(0, self.kind)
        sums = [block.let(f"{request.name}_acc", zero, mutable=True) for request in self.requests]
        return _State(_register(top), tuple(map(_register, sums)))


@dataclass(frozen=True)
class _State:
    """The maximum of the terms so far, and the sums that are relative to it."""

    top: Reg
    sums: Sequence[Reg]


@dataclass(frozen=True)
class _StreamPass:
    """One pass over the terms of several streams. `along`: lanes are terms."""

    ev: LaneEvaluator
    each: Sequence[_Sums]
    along: bool

    def run(self, groups: Sequence[Group], block: CpuBlock) -> list[tuple[Value, list[Value]]]:
        """Per score its maximum and the sums, after loops over `groups` in `block`."""
        states = [each.start(block) for each in self.each]
        self._nested(groups, {}, states, block)
        finish = self._joined if self.along else _finished
        return [finish(each, state, block) for each, state in zip(self.each, states, strict=True)]

    def _nested(self, groups: Sequence[Group], place: Place, states: Sequence[_State], block: CpuBlock) -> None:
        group, *rest = groups
        if not rest:
            self._innermost(group, place, states, block)
            return
        variable = self.ev.writer.variable(group.name, 0, group.extent - 1)
        body = block.inner({variable})
        self._nested(rest, {**place, group: self.ev.writer.counter(variable)}, states, body)
        block.loop(body, variable, AxisExpr(), AxisExpr(group.extent))

    def _innermost(self, group: Group, place: Place, states: Sequence[_State], block: CpuBlock) -> None:
        """Whole steps of several terms, then the terms left in one step; of lanes that are terms, then those of a
        tail."""
        width = self.ev.writer.lanes if self.along else 1
        terms = max(2, self.ev.rescaled // len(self.each))
        several = group.extent - group.extent % (width * terms)
        whole = group.extent - group.extent % width
        self._loop(group, place, states, block, (0, several), terms, width)
        self._loop(group, place, states, block, (several, whole), max(1, (whole - several) // width), width)
        self._loop(group, place, states, block, (whole, group.extent), 1, group.extent - whole)

    def _loop(
        self,
        group: Group,
        place: Place,
        states: Sequence[_State],
        block: CpuBlock,
        span: tuple[int, int],
        terms: int,
        used: int,
    ) -> None:
        """Steps of `terms` terms or registers of `used` lanes over `span`, in parts where there are many."""
        start, stop = span
        if start >= stop:
            return
        writer = self.ev.writer
        step = terms * used
        last = stop - step + (used if self.along else 1) - 1
        variable = writer.variable(group.name, start, last)
        lanes = LaneAxis(variable, None if used == writer.lanes else used) if self.along else None
        at = writer.counter(variable)
        places = [{**place, group: at.shift(used * term)} for term in range(terms)]
        if (stop - start) // step <= 2 * _PART:
            body = block.inner({variable}, lane_axis=lanes)
            self._step(places, states, body)
            block.loop(body, variable, AxisExpr(start), AxisExpr(stop), step)
            return
        origin = writer.variable(f"{group.name}o", start, stop - 1)
        around = block.inner({origin})
        parts = [each.start(around) for each in self.each]
        body = around.inner({variable}, lane_axis=lanes)
        self._step(places, parts, body)
        first = writer.axis(origin)
        around.loop(body, variable, first, first.shift(_PART * step), step, stop)
        for each, state, part in zip(self.each, states, parts, strict=True):
            _put_away(each.fn, state, part, around)
        block.loop(around, origin, AxisExpr(start), AxisExpr(stop), _PART * step)

    def _step(self, places: Sequence[Place], states: Sequence[_State], block: CpuBlock) -> None:
        """Adds the terms at `places`, rescaling once."""
        points = [self._reduced(place) for place in places]
        for each, state in zip(self.each, states, strict=True):
            scores = [self._existing(each.score(point, block), "-inf", block) for point in points]
            top = block.let("top", CpuCall("max", (state.top, tree("max", scores)), each.kind))
            base = block.let("base", finite_or_zero(top))
            shrink = block.let("shrink", weight(each.fn, state.top, base))
            weights = [block.let("p", weight(each.fn, score, base)) for score in scores]
            terms = [
                [self._term(value, p, block) for value in each.values(point, block)]
                for p, point in zip(weights, points, strict=True)
            ]
            for number, total in enumerate(state.sums):
                added = tree("add", [several[number] for several in terms])
                block.assign(total, CpuCall("fma", (total, shrink, added), each.kind))
            block.assign(state.top, top)

    def _term(self, value: Value | None, p: Value, block: CpuBlock) -> Value:
        return p if value is None else self._existing(CpuCall("mul", (p, value), p.dtype), 0, block)

    def _existing(self, value: Value, otherwise: float | str, block: CpuBlock) -> Value:
        """The value in the lanes of a tail that are terms."""
        lane = block.lane_axis
        if not self.along or lane is None or lane.count is None:
            return value
        mask = Inside((), lane.variable, lane.count)
        return block.let("term", CpuCall("where", (mask, value, constant(otherwise, value.dtype)), value.dtype))

    def _reduced(self, place: Place) -> Point:
        box = self.ev.writer.box
        reduced: dict[int, AxisExpr] = {}
        for group, at in place.items():
            reduced.update(zip(group.axes, coordinates(at + group.origin, group.sizes, box), strict=True))
        return tuple(reduced[axis] for axis in sorted(reduced))

    def _joined(self, each: _Sums, state: _State, block: CpuBlock) -> tuple[Value, list[Value]]:
        """Lanes are terms: their maxima and sums in one."""
        top = block.let("top", CpuCall("hmax", (state.top,), each.kind))
        base = block.let("base", finite_or_zero(top))
        shrink = block.let("shrink", weight(each.fn, state.top, base))
        scaled = (CpuCall("mul", (total, shrink), each.kind) for total in state.sums)
        return top, [defined(CpuCall("hsum", (total,), each.kind), top) for total in scaled]


def _finished(_each: _Sums, state: _State, _block: CpuBlock) -> tuple[Value, list[Value]]:
    return state.top, [defined(total, state.top) for total in state.sums]


def _put_away(fn: str, state: _State, part: _State, block: CpuBlock) -> None:
    """Adds a part of the terms to the others."""
    kind = state.top.dtype
    top = block.let("top", CpuCall("max", (state.top, part.top), kind))
    base = block.let("base", finite_or_zero(top))
    shrink = block.let("shrink", weight(fn, state.top, base))
    scale = block.let("scale", weight(fn, part.top, base))
    for total, added in zip(state.sums, part.sums, strict=True):
        block.assign(total, CpuCall("fma", (total, shrink, CpuCall("mul", (added, scale), kind)), kind))
    block.assign(state.top, top)


def tree(fn: str, values: Sequence[Value]) -> Value:
    """The values joined two by two, so that none waits for all before it."""
    level = list(values)
    while len(level) > 1:
        pairs = [CpuCall(fn, pair, pair[0].dtype) for pair in zip(level[::2], level[1::2], strict=False)]
        level = [*pairs, *level[len(pairs) * 2 :]]
    return level[0]


def _register(value: Value) -> Reg:
    assert isinstance(value, Reg)
    return value
