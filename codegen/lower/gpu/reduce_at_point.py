"""Reductions by one thread: loops over the reduced axes, for all neighbours of a vector at once.

    R[i] = sum over r of x[r, i]                     s = {0, 0, 0, 0}
                                                     for r in 0 .. n
    i = 4*p + v, v in 0 .. 4 unrolled          →       x_1 = x[r, 4*p .. 4*p + 4]
                                                       for v in 0 .. 4 unrolled: s[v] = add(s[v], x_1[v])

Long floating-point sums are summed in parts, so that their error does not grow with their length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from codegen.lower.accumulators import PART, Joining
from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.thread_evaluator import convert
from codegen.lower.gpu.vector_evaluator import Lane, VectorEvaluator
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.region_loops import Group
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr
from ir.kernel.gpu.nodes import Call, Element, SetElement, Value
from ir.kernel.nodes import Assign, Reg
from ir.plan.gpu_nest import AT_A_TIME
from ir.region.region import Op

_WRITTEN_OUT = 32
"""Terms up to which loops are unrolled: a window of 5 × 5."""


def join(how: Joining, one: Value, other: Value) -> Value:
    """Two terms, combined."""
    return Call(how.fn, (one, other), how.dtype)


def reduction(ev: VectorEvaluator, name: str, op: Op, point: Point, block: GpuBlock, where: Where) -> Value:
    """The value of a reduce op at `point`, computed by this thread alone, in `block`."""
    how = ev.joining(op)
    if 0 in op.domain[len(op.shape) :]:
        return convert(how.identity, how.dtype, op.dtype)
    lane = ev.lane_of(point, where)
    at = block if lane is None else block.home(axes_of(point, where) - {lane.variable})
    total = _Loops(ev, name, op, how, point, where, lane).total(at)
    return convert(total, how.dtype, op.dtype)


Place = Mapping[Group, AxisExpr]
"""Loop over reduced axes → its position."""


@dataclass(frozen=True)
class _Loops:
    """The loops over the terms of one reduction."""

    ev: VectorEvaluator
    name: str
    op: Op
    how: Joining
    point: Point
    where: Where
    lane: Lane | None

    def total(self, block: GpuBlock) -> Value:
        groups = [group for group in self.ev.loops.reduce_groups(self.name) if group.extent > 1]
        total = self._start(block)
        trips = math.prod(group.extent for group in groups)
        parted = self.op.fn == "sum" and DTYPES[self.how.dtype].is_float and not self.ev.loops.in_order(self.name)
        if trips <= _WRITTEN_OUT or not parted or trips <= 2 * PART:
            self._nest_loops(groups, {}, total, block, written_out=trips <= _WRITTEN_OUT)
        else:
            self._in_parts(groups, total, block)
        return self._element(total)

    def _nest_loops(
        self, groups: Sequence[Group], place: Place, total: str, block: GpuBlock, *, written_out: bool
    ) -> None:
        """Loops over `groups`, all unrolled, or with the innermost a few terms at a time."""
        outer, last = (groups, None) if written_out or not groups else (groups[:-1], groups[-1])
        with ExitStack() as stack:
            body, at = block, dict(place)
            for group in outer:
                loop = body.loop(group.name, AxisExpr(group.extent), unroll=written_out)
                body, at[group] = stack.enter_context(loop)
            if last is None:
                self._add(at, total, body)
            else:
                self._run(last, ZERO, last.extent, at, total, body)

    def _run(self, group: Group, start: AxisExpr, count: int, place: Place, total: str, block: GpuBlock) -> None:
        """`count` terms along a group: a few at a time, so that their loads overlap."""
        whole = count // AT_A_TIME
        with (
            block.loop(group.name, AxisExpr(whole)) as (around, step),
            around.loop("u", AxisExpr(AT_A_TIME), unroll=True) as (body, inner),
        ):
            self._add({**place, group: start + step * AT_A_TIME + inner}, total, body)
        if count % AT_A_TIME:
            with block.loop("u", AxisExpr(count % AT_A_TIME), unroll=True) as (body, inner):
                self._add({**place, group: start + inner.shift(whole * AT_A_TIME)}, total, body)

    def _in_parts(self, groups: Sequence[Group], total: str, block: GpuBlock) -> None:
        """Loops in parts: long loops are outside, around the sums of parts; a single loop that is too long is cut."""
        inside: list[Group] = []
        outside = list(groups)
        while outside and math.prod(group.extent for group in inside) * outside[-1].extent <= 2 * PART:
            inside.insert(0, outside.pop())
        cut = outside.pop() if outside and not inside else None
        with ExitStack() as stack:
            body, at = block, dict[Group, AxisExpr]()
            for group in outside:
                body, at[group] = stack.enter_context(body.loop(group.name, AxisExpr(group.extent)))
            if cut is None:
                part = self._start(body)
                self._nest_loops(inside, at, part, body, written_out=False)
                self._join(total, part, body)
                return
            size = -(-cut.extent // -(-cut.extent // PART))
            whole, left = cut.extent // size, cut.extent % size
            with body.loop(f"{cut.name}o", AxisExpr(whole)) as (around, number):
                part = self._start(around)
                self._run(cut, number * size, size, at, part, around)
                self._join(total, part, around)
            if left:
                part = self._start(body)
                self._run(cut, AxisExpr(whole * size), left, at, part, body)
                self._join(total, part, body)

    # --- accumulators: a scalar, or one register per neighbour ---

    def _start(self, block: GpuBlock) -> str:
        if self.lane is None:
            register = block.let(f"{self.name}_acc", self.how.identity, mutable=True)
            assert isinstance(register, Reg)
            return register.name
        array = self.ev.writer.array(f"{self.name}_acc", self.how.dtype, self.lane.width)
        with self.ev.neighbours(block, self.lane.variable, self.lane.width) as body:
            body.add(SetElement(array, self._index, self.how.identity))
        return array

    @property
    def _index(self) -> AxisExpr:
        assert self.lane is not None
        return AxisExpr(0, ((self.lane.variable, 1),))

    def _element(self, total: str) -> Value:
        if self.lane is None:
            return Reg(total, self.how.dtype)
        return Element(total, self._index, self.how.dtype)

    def _put(self, total: str, value: Value, block: GpuBlock) -> None:
        joined = join(self.how, self._element(total), value)
        block.add(Assign(total, joined) if self.lane is None else SetElement(total, self._index, joined))

    def _join(self, total: str, part: str, block: GpuBlock) -> None:
        width, variable = (self.lane.width, self.lane.variable) if self.lane is not None else (1, 0)
        with self.ev.neighbours(block, variable, width) as body:
            self._put(total, self._element(part), body)

    def _add(self, place: Place, total: str, block: GpuBlock) -> None:
        """Adds the term at a place to an accumulator."""
        writer, kept = self.ev.writer, len(self.op.shape)
        reduced: list[AxisExpr] = [ZERO] * self.op.reduced
        for group, at in place.items():
            for axis, coordinate in zip(group.axes, writer.coordinates(at + group.origin, group.sizes), strict=True):
                reduced[axis] = coordinate
        assert len(reduced) == len(self.op.domain) - kept
        width, variable = (self.lane.width, self.lane.variable) if self.lane is not None else (1, 0)
        with self.ev.neighbours(block, variable, width) as body:
            term = self.ev.operand(self.op.inputs[0], (*self.point, *reduced), body, self.where)
            self._put(total, convert(term, self.how.source, self.how.dtype), body)
