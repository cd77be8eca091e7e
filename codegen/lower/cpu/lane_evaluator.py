"""Evaluates an SSA value of a region at a point of its domain, in vectors along a block's lane axis.

    v = relu(x[i, j] + b[j])   at (i, j), lanes along j
      x_1 = load x[512*i + j : unit]        unit stride: one vector load
      b_1 = load b[j : unit]                does not depend on i: stands outside of i's loop
      v_1 = relu(add(x_1, b_1))

Operand maps are composed by substitution, so that every offset is one expression over loop variables. The step of the
offset along the lane axis decides the load. A padded read becomes a `CpuIf` where the padding is the same in all lanes,
a mask where it differs between lanes, and a plain load where the ranges of the variables prove that it is inside.
Every op rounds to its dtype.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TypeAlias

from codegen.lower.conversions import constant
from codegen.lower.cpu.builder import CpuBlock, CpuWriter, LaneAxis
from codegen.lower.cpu.held_bytes import held_bytes
from codegen.lower.cpu.lane_values import CONVERSIONS
from codegen.lower.cpu.rows_on_chip import Row
from codegen.lower.evaluation import Evaluation as _Evaluation
from codegen.lower.evaluator import Provider as _Provider
from codegen.lower.evaluator import Read, ValueEvaluator
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.region_loops import Group, RegionLoops
from ir.index.expr import ZERO, AxisExpr, FloorDiv, Term, floordiv, interval, substitute
from ir.index.runs import (
    changes_within,
    growth_of_lanes,
    growth_within,
    parts_of_lanes,
    run_of_neighbours,
    window_floor,
)
from ir.index.strides import flat, row_major
from ir.kernel.cpu.nodes import CpuCall, CpuIf, Inside, Lanes, Load, Value
from ir.kernel.nodes import BITS_OF_HALF, Assign, Const, Pick, Reg, Within, register_type
from ir.region.region import Number, Op, Operand, behind

_I32 = 1 << 30
"""Indices up to here, and their growth along lanes, are computed in 32 bits."""
Provider: TypeAlias = _Provider[CpuBlock, Value]
Evaluation: TypeAlias = _Evaluation[Value]


class LaneEvaluator(ValueEvaluator[Value, CpuBlock]):
    """Evaluates the values of one region into blocks. A value is a vector along the lane axis; where the value does not
    depend on the lane axis, all lanes hold the same number. `RegionEvaluator` adds reductions, scans and streams.

    parts     reduction → the part of its loops over terms that is computed now; other reductions run over all terms
    rows      values that are kept in rows; the reduction `filling` computes them, all other readers load them
    rescaled  terms of streams between rescalings of the sums; None in a template that computes no stream at a point
    """

    def __init__(self, loops: RegionLoops, writer: CpuWriter, rescaled: int | None = None) -> None:
        super().__init__(loops.region, writer, CONVERSIONS)
        self.loops, self.writer, self.core, self.rescaled = loops, writer, loops.core, rescaled
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

    def mask(self, conditions: Where, block: CpuBlock, *, existing: bool = False) -> Value | None:
        """The lanes in which all conditions hold; with `existing`, of the lanes that exist. None: all lanes."""
        assert block.lane_axis is not None
        count = block.lane_axis.count if existing else None
        if not conditions and count is None:
            return None
        key = ("mask", Inside(conditions, block.lane_axis.variable, count))
        value = block.find(key)
        if value is None:
            home = block.home(axes_of((count,) if isinstance(count, AxisExpr) else (), conditions))
            value = home.memo[key] = home.let("inside", self._inside(conditions, block.lane_axis, count))
        return value

    def _inside(self, conditions: Where, lane: LaneAxis, count: int | AxisExpr | None) -> Value:
        """The lanes, among the first `count`, in which all conditions hold. An index that does not grow evenly is
        computed once for all lanes where its growth is known."""
        masks: list[Value | None] = []
        others: list[Within] = []
        for condition in conditions:
            growth = self._growth(condition.expr, lane)
            if growth:
                low, high = interval(condition.expr, self.writer.box)
                dtype = "i32" if max(abs(low), abs(high), abs(condition.low), abs(condition.high)) < _I32 else "i64"
                index = Lanes(condition.expr, None, dtype, growth)
                masks.append(CpuCall("cmpge", (index, Const(condition.low, dtype)), "bool"))
                masks.append(CpuCall("cmplt", (index, Const(condition.high, dtype)), "bool"))
            else:
                others.append(condition)
        if others or count is not None:
            masks.insert(0, Inside(tuple(others), lane.variable, count))
        mask = _all_of(masks)
        assert mask is not None
        return mask

    # --- memory ---

    def offset(self, buffer: str, point: Point) -> AxisExpr:
        """The offset of `point` in elements, from the first one of the buffer."""
        return flat(point, row_major(self.buffers[buffer].memref.frame))

    def _load(
        self,
        buffer: str,
        point: Point,
        block: CpuBlock,
        where: Where,
        filled: frozenset[int] = frozenset(),
        dtype: str | None = None,
    ) -> Value:
        """`filled`: the variables whose loops fill the buffer again in every iteration. dtype: of the register; None
        for that of the buffer's elements."""
        offset = self.offset(buffer, point)
        elements = self.buffers[buffer].memref.span
        if where and self.writer.proves(Within(offset, 0, elements)):
            where = ()
        dtype = dtype or register_type(self.dtype(buffer))
        key = ("load", buffer, offset, where, dtype)
        value = block.find(key)
        if value is None:
            home = block.home(axes_of((offset,), where) | filled)
            value = self._load_runs(buffer, offset, home, where, dtype)
            if value is None and not where:
                value = self._load_parts(buffer, offset, home, dtype) or self._load_window(buffer, offset, home, dtype)
            if value is None:
                value = home.let(buffer, self._access(buffer, offset, home, where, dtype))
            home.memo[key] = value
        return value

    def _load_runs(self, buffer: str, offset: AxisExpr, block: CpuBlock, where: Where, dtype: str) -> Value | None:
        """Neighbours where all lanes lie in one run, else single elements; None where lanes have no runs."""
        lane = block.lane_axis
        if lane is None or not run_of_neighbours(offset, lane.variable):
            return None
        apart = self._access(buffer, offset, block, where, dtype)
        count = lane.count if apart.mask is None else None
        run = Load(self.writer.buffer(buffer), offset, dtype, "unit", count, mask=apart.mask)
        result = block.let(buffer, Const(0, dtype), mutable=True)
        assert isinstance(result, Reg)
        changes = changes_within(offset, lane.variable, self.writer.lanes - 1, self.writer.box)
        block.add(CpuIf((Within(changes, 0, 1),), (Assign(result.name, run),), (Assign(result.name, apart),)))
        return result

    def _load_parts(self, buffer: str, offset: AxisExpr, block: CpuBlock, dtype: str) -> Value | None:
        """The few parts of neighbours among which the elements of all lanes lie, permuted; None where there are none,
        or lanes are evenly spaced."""
        lane = block.lane_axis
        if lane is None or isinstance(lane.count, AxisExpr):
            return None
        growth = self._growth(offset, lane)
        parts = parts_of_lanes(growth[: lane.count], self.writer.lanes)
        if not parts:
            return None
        last = max(part.first + part.size - 1 for part in parts)
        low, high = -min(part.first for part in parts), self.buffers[buffer].memref.span - last
        ways = (offset, self._at_first_lane(offset, lane))
        first = next((way for way in ways if self.writer.proves(Within(way, low, high))), None)
        if first is None:
            return None
        value: Value | None = None
        for part in parts:
            missing, count = (0,) * (len(growth) - len(part.places)), part.size
            at = first.shift(part.first)
            window = Load(self.writer.buffer(buffer), at, dtype, "unit", count if count < len(growth) else None)
            place = Lanes(ZERO, None, "i32", part.places + missing)
            loaded = block.let(buffer, CpuCall("permute", (place, window), dtype))
            if value is None:
                value = loaded
            else:
                here = Lanes(ZERO, None, "i32", tuple(map(int, part.lanes)) + missing)
                mask = block.let("here", CpuCall("cmpeq", (here, Const(1, "i32")), "bool"))
                value = block.let(buffer, CpuCall("where", (mask, loaded, value), dtype))
        return value

    def _load_window(self, buffer: str, offset: AxisExpr, block: CpuBlock, dtype: str) -> Value | None:
        """The neighbours among which the elements of all lanes lie, permuted; None where there is no such window."""
        lane = block.lane_axis
        floor = None if lane is None else window_floor(offset, lane.variable)
        if lane is None or floor is None:
            return None
        lanes = lane.count if isinstance(lane.count, AxisExpr) else AxisExpr(lane.count or self.writer.lanes)
        if interval(lanes, self.writer.box)[0] < 1:  # without a lane there is no window
            return None
        last = growth_within(floor, lane.variable, lanes.shift(-1), self.writer.box)
        window = Load(self.writer.buffer(buffer), offset, dtype, "unit", last.shift(1))
        at = AxisExpr(0, ((floor, 1),))
        place = CpuCall("sub", (Lanes(at, lane.variable, "i32"), Lanes(at, None, "i32")), "i32")
        return block.let(buffer, CpuCall("permute", (block.let("place", place), window), dtype))

    def _access(self, buffer: str, offset: AxisExpr, block: CpuBlock, where: Where, dtype: str) -> Load:
        name = self.writer.buffer(buffer)
        lane = block.lane_axis
        if lane is None or not (where or lane.variable in offset.axes):
            return Load(name, offset, dtype, "splat")
        step = offset.coeff(lane.variable)
        if where or step is None:
            mask = self.mask(where, block, existing=True)
            if step == 1:
                return Load(name, offset, dtype, "unit", mask=mask)
            return Load(name, AxisExpr(), dtype, "gather", index=self._position(offset, "i64", block), mask=mask)
        if step == 1:
            return Load(name, offset, dtype, "unit", lane.count)
        return Load(name, offset, dtype, "strided", lane.count, step)

    def _load_bits(self, buffer: str, point: Point, block: CpuBlock, where: Where) -> Value:
        return self._load(buffer, point, block, where, dtype=BITS_OF_HALF)

    def load_now(self, buffer: str, point: Point, block: CpuBlock) -> Value:
        """The element at this place of the block, where the kernel itself writes the buffer."""
        dtype = register_type(self.dtype(buffer))
        return block.let(buffer, self._access(buffer, self.offset(buffer, point), block, (), dtype))

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
                mask = _all_of(self._within(bound, lanes, inner) for bound in bounds if picked in bound.expr.axes)
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
        return _all_of([CpuCall("cmpge", (value, low), "bool"), CpuCall("cmplt", (value, high), "bool")])

    def _lanes_of(self, expr: AxisExpr, lanes: Mapping[int, Value], block: CpuBlock) -> Value:
        """An index in all lanes, as i64. `lanes`: the variables of the index that differ between lanes, with their
        values."""
        moved = [(term, c) for term, c in expr.terms if not _axes_of_term(term).isdisjoint(lanes)]
        rest = AxisExpr(expr.const, tuple(entry for entry in expr.terms if entry not in moved))
        total: Value = self._position(rest, "i64", block)
        for term, c in moved:
            value = lanes[term] if isinstance(term, int) else self._quotient(term, lanes, block)
            scaled = value if c == 1 else CpuCall("mul", (value, Const(c, "i64")), "i64")
            total = scaled if total == Lanes(AxisExpr(), None, "i64") else CpuCall("add", (total, scaled), "i64")
        return total

    def _quotient(self, term: FloorDiv, lanes: Mapping[int, Value], block: CpuBlock) -> Value:
        return CpuCall("idiv", (self._lanes_of(term.expr, lanes, block), Const(term.divisor, "i64")), "i64")

    def _load_lanes(self, buffer: str, index: Value, block: CpuBlock, where: Where, masks: tuple[Value, ...]) -> Value:
        """The elements at these offsets, in the lanes that all masks select."""
        name, dtype = self.writer.buffer(buffer), register_type(self.dtype(buffer))
        mask = _all_of([self.mask(where, block, existing=True), *masks])
        return block.let(buffer, Load(name, AxisExpr(), dtype, "gather", index=index, mask=mask))

    def _position(self, expr: AxisExpr, dtype: str, block: CpuBlock) -> Value:
        lane = block.lane_axis if block.moves_in_lanes(expr.axes) else None
        growth = () if lane is None else self._growth(expr, lane)
        return Lanes(expr, lane.variable if lane is not None and not growth else None, dtype, growth)

    def _differs_in_lanes(self, expr: AxisExpr, block: CpuBlock) -> bool:
        """Whether an index may differ between lanes."""
        lane = block.lane_axis
        if lane is None or lane.variable not in expr.axes:
            return False
        growth = self._growth(expr, lane)
        return not growth or any(growth)

    def _at_first_lane(self, expr: AxisExpr, lane: LaneAxis) -> AxisExpr:
        """The same index with the first lane's place written as a multiple of the lanes: its range is exact then."""
        lanes, variables = self.writer.lanes, list(map(self.writer.axis, range(len(self.writer.box))))
        variables[lane.variable] = floordiv(variables[lane.variable], lanes, self.writer.box) * lanes
        return substitute(expr, tuple(variables), self.writer.box)

    def _growth(self, expr: AxisExpr, lane: LaneAxis) -> tuple[int, ...]:
        """The growth of an uneven index from the first lane to each lane, if it is the same wherever the first lane
        stands; else ()."""
        uneven = lane.aligned and expr.coeff(lane.variable) is None
        return growth_of_lanes(expr, lane.variable, self.writer.lanes) if uneven else ()


def _all_of(masks: Iterable[Value | None]) -> Value | None:
    """The lanes that all masks select; None is the mask of all lanes."""
    several = [mask for mask in masks if mask is not None]
    return reduce(lambda a, b: CpuCall("and", (a, b), "bool"), several) if several else None


def _axes_of_term(term: Term) -> frozenset[int]:
    return frozenset([term]) if isinstance(term, int) else term.expr.axes


def index_axes(operand: Operand | Number, point: Point, writer: CpuWriter) -> frozenset[int]:
    """The variables on which an operand at `point` depends."""
    if isinstance(operand, Number):
        return frozenset()
    conditions = tuple(condition for guard in operand.map.guards for condition in writer.conditions(guard, point))
    return axes_of(writer.at(operand.map.exprs, point), conditions)
