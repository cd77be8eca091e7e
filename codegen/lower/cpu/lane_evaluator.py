"""Evaluates an SSA value of a region at a point of its domain, in vectors along a block's lane axis.

    v = relu(x[i, j] + b[j])   at (i, j), lanes along j
      x_1 = load x[512*i + j : unit]        unit stride: one vector load
      b_1 = load b[j : unit]                does not depend on i: stands outside of i's loop
      v_1 = relu(add(x_1, b_1))

Operand maps are composed by substitution, so that every offset is one expression over loop variables, which
`lane_loads` loads. A padded read becomes a `CpuIf` where the padding is the same in all lanes, a mask where it differs
between lanes, and a plain load where the ranges of the variables prove that it is inside. Every op rounds to its dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from codegen.lower.conversions import constant
from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from codegen.lower.cpu.held_bytes import held_bytes
from codegen.lower.cpu.lane_loads import LaneLoads, all_of
from codegen.lower.cpu.rows_on_chip import Row
from codegen.lower.evaluation import Evaluation as _Evaluation
from codegen.lower.evaluator import Provider as _Provider
from codegen.lower.evaluator import Read
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.region_loops import Group, RegionLoops
from ir.index.expr import AxisExpr, FloorDiv
from ir.index.linear import split_by_axes
from ir.kernel.cpu.nodes import CpuCall, Lanes, Load, Value
from ir.kernel.nodes import Const, Pick, Within, register_type
from ir.region.region import Number, Op, Operand, behind

Provider: TypeAlias = _Provider[CpuBlock, Value]
Evaluation: TypeAlias = _Evaluation[Value]


class LaneEvaluator(LaneLoads):
    """Evaluates the values of one region into blocks. A value is a vector along the lane axis; where the value does not
    depend on the lane axis, all lanes hold the same number. `RegionEvaluator` adds reductions, scans and streams.

    parts     reduction → the part of its loops over terms that is computed now; other reductions run over all terms
    rows      values that are kept in rows; the reduction `filling` computes them, all other readers load them
    rescaled  terms of streams between rescalings of the sums; None in a template that computes no stream at a point
    """

    def __init__(self, loops: RegionLoops, writer: CpuWriter, rescaled: int | None = None) -> None:
        super().__init__(loops.region, writer)
        self.loops, self.core, self.rescaled = loops, loops.core, rescaled
        self.parts: dict[str, tuple[Group, ...]] = {}
        self.rows: dict[str, Row] = {}
        self.filling: str | None = None

    def needs(self, value: str, other: str) -> bool:
        """Whether `value` is computed from `other`."""
        return other in behind(self.ops, value) and other != value

    def groups(self, name: str) -> tuple[Group, ...]:
        """The loops over the terms of the reduction `name`; lanes may run along the last, which is the innermost."""
        return self.parts.get(name) or self.loops.reduce_groups(name)

    def _value(self, name: str, point: Point, block: CpuBlock, where: Where) -> Evaluation:
        if name in self.provided:
            return self.provided[name](point, block, where)
        if name not in self.ops:
            return self._load(name, point, block, where)
        key = (name, point, where)
        value = block.find(key)
        if value is None:
            row = self.rows.get(name)
            if row is not None and self.filling != row.kept.filler:
                yield self._value(row.kept.filler, row.filler_point(point), block, ())
                return self._load(row.buffer.name, row.place(point), block, where, axes_of(point))
            home = block.home(axes_of(point, where))
            op = self.ops[name]
            value = home.let(name, (yield self._compute(name, op, point, home, where)))
            home.memo.setdefault(key, value)
            if row is not None:
                home.store(row.buffer.name, self.offset(row.buffer.name, row.place(point)), value)
        return value

    def _elementwise(self, op: Op, point: Point, block: CpuBlock, where: Where) -> Evaluation:
        held = held_bytes(op, self._op_of)
        if held is None:
            return (yield super()._elementwise(op, point, block, where))
        for view in held.views:
            point = self.writer.at(view.exprs, point)
        return held.call((yield self._operand(held.operand, point, block, where)), op.dtype)

    def _op_of(self, name: str) -> Op | None:
        """The op that computes a value where the value is read."""
        return None if name in self.provided or name in self.rows else self.ops.get(name)

    def keep(self, rows: Mapping[str, Row]) -> None:
        """Keeps these values in rows."""
        self.rows |= rows
        self.buffers |= {row.buffer.name: row.buffer for row in rows.values()}

    def _read_guarded(
        self,
        guards: Sequence[tuple[Where, Const]],
        at: Point,
        block: CpuBlock,
        where: Where,
        read: Read[CpuBlock, Value],
    ) -> Evaluation:
        if not guards:
            return (yield read(at, block, where))
        (conditions, fill), *rest = guards
        known = block.facts | set(where)
        unproven = tuple(
            condition for condition in conditions if condition not in known and not self.writer.proves(condition)
        )
        if any(self.writer.refutes(guard) for guard in unproven):
            return fill
        lane = tuple(guard for guard in unproven if self._differs_in_lanes(guard.expr, block))
        outer = tuple(guard for guard in unproven if guard not in lane)
        inner = (*where, *lane)

        def inside(body: CpuBlock) -> Evaluation:
            value = yield self._read_guarded(rest, at, body, inner, read)
            mask = self.mask(lane, body) if lane else None
            return value if mask is None else CpuCall("where", (mask, value, fill), fill.dtype)

        if not outer:
            return (yield inside(block))
        axes = axes_of(at, (*inner, *outer, *(bound for bounds, _ in rest for bound in bounds)))
        home = block.home(axes)
        result = home.let("read", fill, mutable=True)
        body = home.inner(barrier=True, facts=outer)
        body.assign(result, (yield inside(body)))  # type: ignore[arg-type]
        home.guard(body, outer)
        return result

    # --- ops ---

    def _gather(self, op: Op, point: Point, block: CpuBlock, where: Where) -> Evaluation:
        source, size = self._gather_source(op)
        chosen = op.inputs[1]
        index = self._index_value((yield self._operand(chosen, point, block, where)), chosen, size)
        depends = index_axes(chosen, point, self.writer)
        if block.moves_in_lanes(depends):
            return (yield self._gather_lanes(source, point, index, block, where))
        place = (*point, self._bind_index(index, size, block.home(depends)))
        read = partial(self._value, source.value)
        return (yield self._read_through(source.map, place, self.dtype(source.value), block, where, read))

    def _bind_index(self, index: Value, size: int, home: CpuBlock) -> AxisExpr:
        """An index that is the same in all lanes, as a variable of the kernel, so that its load needs no gather."""
        key = ("pick", index, size)
        value = home.find(key)
        if value is None:
            variable = self.writer.variable("at", 0, size - 1)
            home.add(Pick(variable, index))
            home.variables.add(variable)
            value = home.memo[key] = Lanes(self.writer.axis(variable), None, "i64")
        assert isinstance(value, Lanes)
        return value.expr

    def _gather_lanes(self, source: Operand, point: Point, index: Value, block: CpuBlock, where: Where) -> Evaluation:
        """A gather whose index differs between lanes. A bound on the index is a mask."""
        last = Const(source.map.sizes[-1] - 1, "i64")
        picked = self.writer.variable("at", 0, source.map.sizes[-1] - 1)
        held = block.let("at", CpuCall("min", (CpuCall("max", (index, Const(0, "i64")), "i64"), last), "i64"))
        block.variables.add(picked)  # so that no read by the index leaves the block that holds it
        place = (*point, self.writer.axis(picked))
        at, dtype = self.writer.at(source.map.exprs, place), self.dtype(source.value)
        guards = [(self.writer.conditions(guard, place), constant(guard.fill, dtype)) for guard in source.map.guards]
        lanes = {picked: held}

        def read(guards: Sequence[tuple[Where, Const]], masks: tuple[Value, ...]) -> Read[CpuBlock, Value]:
            def load(_: Point, inner: CpuBlock, conditions: Where) -> Evaluation:
                offset = self._lanes_of(self.offset(source.value, at), lanes, inner)
                return self._load_lanes(source.value, inner.let("at", offset), inner, conditions, masks)
                yield  # makes this a generator

            def select(_: Point, inner: CpuBlock, conditions: Where) -> Evaluation:
                (bounds, fill), *others = guards
                mask = all_of(self._within(bound, lanes, inner) for bound in bounds if picked in bound.expr.axes)
                known = masks if mask is None else (*masks, inner.let("inside", mask))
                value = yield read(others, known)(at, inner, conditions)
                return value if mask is None else CpuCall("where", (known[-1], value, fill), fill.dtype)

            def guarded(_: Point, inner: CpuBlock, conditions: Where) -> Evaluation:
                bounds, fill = guards[0]
                plain = tuple(bound for bound in bounds if picked not in bound.expr.axes)
                return (yield self._read_guarded([(plain, fill)], at, inner, conditions, select))

            return guarded if guards else load

        return (yield read(guards, ())(at, block, where))

    def _within(self, condition: Within, lanes: Mapping[int, Value], block: CpuBlock) -> Value | None:
        """The lanes in which a condition on variables that differ between lanes holds; None: all."""
        if self.writer.proves(condition):
            return None
        value = block.let("at", self._lanes_of(condition.expr, lanes, block))
        low, high = (Const(bound, "i64") for bound in (condition.low, condition.high))
        return all_of([CpuCall("cmpge", (value, low), "bool"), CpuCall("cmplt", (value, high), "bool")])

    def _lanes_of(self, expr: AxisExpr, lanes: Mapping[int, Value], block: CpuBlock) -> Value:
        """An index in all lanes, as i64. `lanes`: the variables of the index that differ between lanes, with their
        values."""
        moved, rest = split_by_axes(expr, lanes)
        total: Value = self._position(rest, "i64", block)
        for term, c in moved.terms:
            value = lanes[term] if isinstance(term, int) else self._quotient(term, lanes, block)
            scaled = value if c == 1 else CpuCall("mul", (value, Const(c, "i64")), "i64")
            total = scaled if total == Lanes(AxisExpr(), None, "i64") else CpuCall("add", (total, scaled), "i64")
        return total

    def _quotient(self, term: FloorDiv, lanes: Mapping[int, Value], block: CpuBlock) -> Value:
        return CpuCall("idiv", (self._lanes_of(term.expr, lanes, block), Const(term.divisor, "i64")), "i64")

    def _load_lanes(self, buffer: str, index: Value, block: CpuBlock, where: Where, masks: tuple[Value, ...]) -> Value:
        """The elements at these offsets, in the lanes that all masks select."""
        name, dtype = self.writer.buffer(buffer), register_type(self.dtype(buffer))
        mask = all_of([self.mask(where, block, existing=True), *masks])
        return block.let(buffer, Load(name, AxisExpr(), dtype, "gather", index=index, mask=mask))


def index_axes(operand: Operand | Number, point: Point, writer: CpuWriter) -> frozenset[int]:
    """The variables on which an operand at `point` depends."""
    if isinstance(operand, Number):
        return frozenset()
    conditions = tuple(condition for guard in operand.map.guards for condition in writer.conditions(guard, point))
    return axes_of(writer.at(operand.map.exprs, point), conditions)
