"""Loads of elements into lanes: neighbours at once wherever all lanes have them, and permuted where lanes share them or
take turns; single elements elsewhere.

    x_1 = load x[512*i + j : unit]                      lanes along j are neighbours
    x_2 = permute(0 0 1 1 2 2 …, load x[j//2 : unit])   two lanes share an element
    x_3 = load x[512*j + i : strided]                   lanes lie in different rows

The step of the offset along the lane axis decides the load (`ir.index.runs`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from codegen.lower.cpu.builder import CpuBlock, CpuWriter, LaneAxis
from codegen.lower.cpu.lane_values import CONVERSIONS
from codegen.lower.evaluator import ValueEvaluator
from codegen.lower.points import Point, Where, axes_of
from ir.index.expr import ZERO, AxisExpr, floordiv, interval, substitute
from ir.index.linear import split_by_axes
from ir.index.runs import (
    LanePart,
    changes_within,
    growth_of_lanes,
    growth_within,
    parts_of_lanes,
    run_of_neighbours,
    window_floor,
)
from ir.index.strides import flat, row_major
from ir.kernel.cpu.nodes import CpuCall, CpuIf, Inside, Lanes, Load, Value
from ir.kernel.nodes import BITS_OF_HALF, Assign, Const, Reg, Within, register_type
from ir.region.region import Region

_I32 = 1 << 30
"""Indices up to here, and their growth along lanes, are computed in 32 bits."""


class LaneLoads(ValueEvaluator[Value, CpuBlock]):
    """Loads the elements of a region's buffers in vectors along a block's lane axis."""

    def __init__(self, region: Region, writer: CpuWriter) -> None:
        super().__init__(region, writer, CONVERSIONS)
        self.writer = writer

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
        mask = all_of(masks)
        assert mask is not None
        return mask

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
        forms = (offset, self._at_first_lane(offset, lane))
        base = next((form for form in forms if self.writer.proves(Within(form, low, high))), None)
        if base is None:
            return None
        value: Value | None = None
        for part in parts:
            missing = (0,) * (len(growth) - len(part.places))
            before, count = self._window_of(part, base, self.buffers[buffer].memref.span)
            window = Load(self.writer.buffer(buffer), base.shift(part.first - before), dtype, "unit", count)
            place = Lanes(ZERO, None, "i32", tuple(place + before for place in part.places) + missing)
            loaded = block.let(buffer, CpuCall("permute", (place, window), dtype))
            if value is None:
                value = loaded
            else:
                here = Lanes(ZERO, None, "i32", tuple(map(int, part.lanes)) + missing)
                mask = block.let("here", CpuCall("cmpeq", (here, Const(1, "i32")), "bool"))
                value = block.let(buffer, CpuCall("where", (mask, loaded, value), dtype))
        return value

    def _window_of(self, part: LanePart, base: AxisExpr, elements: int) -> tuple[int, int | None]:
        """How many elements before a part of neighbours its load starts, and how many it loads. A whole register (None)
        starts at a multiple of the lanes if possible, as the loads of other parts do; where it might leave the buffer,
        the part alone is loaded."""
        lanes, first = self.writer.lanes, base.const + part.first
        for before in (min(first % lanes, lanes - part.size), 0):
            if self.writer.proves(Within(base.shift(part.first - before), 0, elements - lanes + 1)):
                return before, None
        return 0, part.size

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
            if step == -1:
                return Load(name, offset, dtype, "strided", step=step, mask=mask)
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

    def _position(self, expr: AxisExpr, dtype: str, block: CpuBlock) -> Value:
        lane = block.lane_axis if block.moves_in_lanes(expr.axes) else None
        growth = () if lane is None else self._growth(expr, lane)
        if lane is None or growth:
            return Lanes(expr, None, dtype, growth)
        if expr.coeff(lane.variable) is None:
            return self._uneven(expr, dtype, lane, block)
        return Lanes(expr, lane.variable, dtype)

    def _uneven(self, expr: AxisExpr, dtype: str, lane: LaneAxis, block: CpuBlock) -> Value:
        """An index with uneven steps from lane to lane. Reads whose indices differ by one number in all lanes share the
        part that depends on the lane."""
        moved, rest = split_by_axes(expr, (lane.variable,))
        home, key = block.home(moved.axes), ("uneven", moved, dtype)
        value = home.find(key)
        if value is None:
            value = home.memo[key] = home.let("at", Lanes(moved, lane.variable, dtype))
        return value if rest == ZERO else CpuCall("add", (Lanes(rest, None, dtype), value), dtype)

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


def all_of(masks: Iterable[Value | None]) -> Value | None:
    """The lanes that all masks select; None is the mask of all lanes."""
    several = [mask for mask in masks if mask is not None]
    return reduce(lambda a, b: CpuCall("and", (a, b), "bool"), several) if several else None
