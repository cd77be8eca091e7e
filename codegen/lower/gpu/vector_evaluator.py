"""The values of a nest on a GPU: as `thread_evaluator`, but neighbours are loaded as one vector.

for v in 0 .. 4 unrolled                    x_1 = x[4*p .. 4*p + 4]
  y_1[v] = relu(x[4*p + v] + b[i])    →     for v in 0 .. 4 unrolled: y_1[v] = relu(x_1[v] + b_1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from codegen.lower.gpu.buffer_axes import BufferAxes
from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.rows_on_chip import RowsOnChip
from codegen.lower.gpu.thread_evaluator import Evaluation, ThreadEvaluator
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.region_loops import RegionLoops
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, interval, substitute
from ir.index.strides import flat, row_major
from ir.kernel.gpu.kernel import GpuParam
from ir.kernel.gpu.nodes import (
    At,
    Element,
    GpuFor,
    LdGlobalVec,
    LdSharedVec,
    LoadGlobal,
    LoadShared,
    SetElement,
    StGlobal,
    StGlobalVec,
    Stmt,
    StShared,
    StSharedVec,
    Value,
)
from ir.kernel.gpu.places import divisor
from ir.kernel.nodes import Bind, Within, register_type

MOST_BYTES = 16
"""Bytes that a thread moves with one instruction, at most."""
_BYTES_AT_ONCE = (4, 8, 16)


@dataclass(frozen=True)
class Lane:
    """The loop over the `width` neighbours of one thread.

    block   the body
    first   register of the first neighbour, in arrays of `count` registers
    after   statements that follow the loop
    """

    variable: int
    width: int
    block: GpuBlock
    first: AxisExpr
    count: int
    after: list[Stmt] = field(default_factory=list)

    @property
    def index(self) -> AxisExpr:
        """The register of the loop's current neighbour."""
        return self.first + AxisExpr(0, ((self.variable, 1),))


class VectorEvaluator(ThreadEvaluator):
    """Evaluates values at points of a nest.

    lane      the loop over neighbours, inside of one
    finished  values that several threads computed together, by name and point
    staged    elements of buffers that are in shared memory
    chip      in passes over rows that stay in shared memory: the rows, of the buffers `kept`
    """

    def __init__(self, loops: RegionLoops, writer: GpuWriter, axes: BufferAxes, *, approximate: bool) -> None:
        super().__init__(loops.region, writer, approximate=approximate)
        self.loops, self.axes = loops, axes
        self.lane: Lane | None = None
        self.finished: dict[tuple[str, Point], Value] = {}
        self.staged: dict[tuple[str, Point], Value] = {}
        self.chip: RowsOnChip | None = None
        self.kept: frozenset[str] = frozenset()

    def params(self) -> tuple[GpuParam, ...]:
        """The kernel's parameters, with merged axes."""
        written = {output.name for output in self.region.outputs}
        return tuple(
            GpuParam(
                self.writer.buffer(buffer.name),
                buffer.memref.dtype,
                self.axes.shape(buffer.name),
                buffer.name in written,
            )
            for buffer in self.region.buffers
        )

    @contextmanager
    def neighbours(
        self, block: GpuBlock, variable: int, width: int, first: AxisExpr = ZERO, count: int | None = None
    ) -> Iterator[GpuBlock]:
        """The body of an unrolled loop over the neighbours of a vector; for one it is `block` itself."""
        if width == 1:
            yield block
            return
        body = block.inner({variable})
        around, lane = self.lane, Lane(variable, width, body, first, count or width)
        self.lane = lane
        yield body
        self.lane = around
        block.add(GpuFor(variable, ZERO, AxisExpr(width), tuple(body.statements), unroll=True), *lane.after)

    def lane_of(self, point: Sequence[AxisExpr], where: Where = ()) -> Lane | None:
        """The loop over neighbours, if the point or the conditions depend on it."""
        return self.lane if self.lane is not None and self.lane.variable in axes_of(point, where) else None

    def named(self, block: GpuBlock, name: str, expr: AxisExpr) -> AxisExpr:
        """An index as a variable of the block, whose range is known and whose name people can read."""
        if not expr.terms or (expr == AxisExpr(0, expr.terms[:1]) and expr.lone_axis is not None):
            return expr
        variable = self.writer.variable(name, *interval(expr, self.writer.box))
        block.add(Bind(variable, expr))
        block.variables.add(variable)
        return self.writer.axis(variable)

    # --- loads ---

    def _load(self, buffer: str, point: Point, block: GpuBlock, where: Where) -> Value:
        at = self.axes.place(buffer, point)
        if (buffer, at) in self.staged:
            return self.staged[buffer, at]
        unproven = tuple(condition for condition in where if not block.knows(condition))
        key = ("load", buffer, at, unproven)
        value = block.find(key)
        if value is None:
            lane = self.lane_of(at, unproven)
            value = self._load_vector(buffer, at, block, unproven, lane) if lane is not None else None
            home = block.home(axes_of(at, unproven))
            home.memo[key] = value = value or self._load_element(buffer, at, home, unproven)
        return value

    def _place(self, buffer: str, point: Point) -> Point:
        return self.axes.place(buffer, point)

    def load_now(self, buffer: str, point: Point, block: GpuBlock) -> Value:
        """The element at this place of the block, where the kernel itself writes the buffer."""
        place = self.axes.place(buffer, point)
        return block.let(buffer, LoadGlobal(self.writer.buffer(buffer), place, register_type(self.dtype(buffer))))

    def _load_element(self, buffer: str, at: Point, home: GpuBlock, where: Where) -> Value:
        """Loads one element."""
        dtype = register_type(self.dtype(buffer))
        load = LoadGlobal(self.writer.buffer(buffer), at, dtype, where)
        if self.chip is None or buffer not in self.kept or not self.chip.is_in_row(axes_of(at)):
            return home.let(buffer, load)
        lane = self.lane_of(at, where)
        neighbour = AxisExpr(0, ((lane.variable, 1),)) if lane is not None else ZERO
        place = self.chip.find((at, where, buffer), neighbour)
        if place is not None:
            return home.let(buffer, LoadShared(place, dtype))
        value = home.let(buffer, load)
        if self.chip.writes:
            home.add(StShared(self.chip.add((at, where, buffer), buffer, self.dtype(buffer), neighbour), value))
        return value

    def _load_vector(self, buffer: str, at: Point, block: GpuBlock, where: Where, lane: Lane) -> Value | None:
        """Loads all neighbours at once; the current one. None where they are no neighbours in memory."""
        vector_width = self.vector_width(buffer, at, lane)
        start = self.first_neighbour(at, lane)
        together = self._shared_conditions(where, lane)
        if not vector_width or together is None:
            return None
        home = block.home(axes_of(start, together))
        if not _is_around(home, lane.block):
            return None
        name, dtype = self.writer.buffer(buffer), register_type(self.dtype(buffer))
        array = self.writer.array(name, dtype, lane.count)
        firsts = range(0, lane.width, vector_width)
        chip = self.chip if buffer in self.kept else None
        key = start, together, buffer
        known = chip.find(key) if chip is not None else None
        if known is not None:
            home.add(*(LdSharedVec(array, lane.first.shift(k), vector_width, _shifted(known, k)) for k in firsts))
            return Element(array, lane.index, dtype)
        for first in firsts:
            place = (*start[:-1], start[-1].shift(first))
            home.add(LdGlobalVec(array, lane.first.shift(first), vector_width, name, place, together))
        if chip is not None and chip.writes and chip.is_in_row(axes_of(start)):
            own = chip.add(key, buffer, self.dtype(buffer))
            home.add(*(StSharedVec(_shifted(own, k), array, lane.first.shift(k), vector_width) for k in firsts))
        return Element(array, lane.index, dtype)

    def vector_width(self, buffer: str, at: Point, lane: Lane) -> int:
        """How many neighbours of a buffer move at once, at coordinates that depend on the loop over neighbours; 0 where
        they are no neighbours in memory, or not aligned."""
        if not at or at[-1].coeff(lane.variable) != 1 or any(lane.variable in index.axes for index in at[:-1]):
            return 0
        size = DTYPES[self.dtype(buffer)].bytes
        vector_width = min(lane.width, MOST_BYTES // size)
        start = flat(self.first_neighbour(at, lane), row_major(self.axes.shape(buffer)))
        ok = vector_width > 1 and vector_width * size in _BYTES_AT_ONCE and divisor(start) % vector_width == 0
        return vector_width if ok and lane.width % vector_width == 0 else 0

    def first_neighbour(self, exprs: Sequence[AxisExpr], lane: Lane) -> Point:
        """Expressions at the first neighbour."""
        box = self.writer.box
        zero = tuple(ZERO if number == lane.variable else self.writer.axis(number) for number in range(len(box)))
        return tuple(substitute(expr, zero, box) for expr in exprs)

    def _shared_conditions(self, where: Where, lane: Lane) -> Where | None:
        """The conditions at the first neighbour, if they hold for all neighbours or for none; else None."""
        shared = []
        for condition in where:
            if lane.variable in condition.expr.axes:
                (start,) = self.first_neighbour((condition.expr,), lane)
                aligned = all(number % lane.width == 0 for number in (divisor(start), condition.low, condition.high))
                if condition.expr.coeff(lane.variable) != 1 or not aligned:
                    return None
                condition = Within(start, condition.low, condition.high)
            shared.append(condition)
        return tuple(shared)

    # --- stores ---

    def store(self, buffer: str, point: Point, value: Value, block: GpuBlock, where: Where) -> None:
        """Stores one element of an output; neighbours in memory are stored at once, after the loop over them."""
        at, name = self.axes.place(buffer, point), self.writer.buffer(buffer)
        lane = self.lane_of(at, where)
        own = register_type(self.dtype(buffer)) == value.dtype
        vector_width = self.vector_width(buffer, at, lane) if lane is not None and own else 0
        together = self._shared_conditions(where, lane) if lane is not None else None
        if lane is None or not vector_width or together is None:
            block.add(StGlobal(name, at, value, where))
            return
        array = self.writer.array(name, register_type(self.dtype(buffer)), lane.width)
        block.add(SetElement(array, AxisExpr(0, ((lane.variable, 1),)), value))
        start = self.first_neighbour(at, lane)
        for first in range(0, lane.width, vector_width):
            place = (*start[:-1], start[-1].shift(first))
            lane.after.append(StGlobalVec(name, place, array, AxisExpr(first), vector_width, together))

    # --- ops ---

    def _value(self, name: str, point: Point, block: GpuBlock, where: Where) -> Evaluation:
        value = self.finished.get((name, point))
        return value if value is not None else (yield super()._value(name, point, block, where))


def _shifted(at: At, by: int) -> At:
    """The element `by` positions later."""
    return At(at.shared, (*at.at[:-1], at.at[-1].shift(by)))


def _is_around(outer: GpuBlock, block: GpuBlock) -> bool:
    """Whether `block` is inside `outer`."""
    parent = block.parent
    while parent is not None:
        if parent is outer:
            return True
        parent = parent.parent
    return False
