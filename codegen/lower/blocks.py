"""Kernels under construction: their variables, and nested blocks of statements that hoist what they can.

A value is written into the outermost block in which all variables that it depends on are bound, and once only:
`Block.home` finds the block, `Block.memo` remembers what is there. A barrier (the body of a guard) keeps its
values in: outside of it their loads could leave their buffers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from ir.axis_expr import AxisExpr, Box, axis, interval
from ir.cpu import Assign, Call, Const, For, If, Let, Reg, Scratch, Stmt, Store, Value, Variable, Within

_SIMPLE = (Const, Reg)


@dataclass(frozen=True)
class LaneAxis:
    """The variable whose neighbours share a register, and how many of them exist (all lanes when None)."""

    variable: int
    count: int | AxisExpr | None = None


class Writer:
    """What a kernel has one of: variables, names of registers, scratch, the lane count."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.variables: list[Variable] = []
        self.shared: list[Scratch] = []
        self.private: list[Scratch] = []
        self._used: dict[str, int] = {}
        self._buffers: dict[str, str] = {}
        self._box: Box = ()

    def variable(self, name: str, low: int, high: int) -> int:
        """A new variable with values in [low, high]; its number."""
        self.variables.append(Variable(self.fresh(name), low, high))
        self._box = (*self._box, (low, high))
        return len(self.variables) - 1

    def axis(self, variable: int) -> AxisExpr:
        """The variable as an expression: a constant where it has one value."""
        return axis(variable, self._box)

    def counter(self, variable: int) -> AxisExpr:
        """The variable as an expression that depends on it even where it has one value: lanes, and what a loop
        carries, belong inside the loop."""
        return AxisExpr(0, ((variable, 1),))

    def fresh(self, name: str) -> str:
        """A C name not used before, made of `name`."""
        clean = "".join(each if each.isalnum() and each.isascii() else "_" for each in name)
        count = self._used[clean] = self._used.get(clean, 0) + 1
        if count == 1 and not clean[:1].isdigit():
            return clean
        return self.fresh(f"{clean}_{count}" if clean[:1].isalpha() else f"v{clean}")

    def buffer(self, name: str) -> str:
        """The name in this kernel of the region's buffer `name`."""
        found = self._buffers.get(name)
        if found is None:
            found = self._buffers[name] = self.fresh(name)
        return found

    @property
    def box(self) -> Box:
        """The range of every variable, for `ir.axis_expr`."""
        return self._box

    def proves(self, condition: Within) -> bool:
        """Whether the condition holds wherever the variables are."""
        low, high = interval(condition.expr, self._box)
        return condition.low <= low and high < condition.high

    def refutes(self, condition: Within) -> bool:
        """Whether the condition holds nowhere."""
        low, high = interval(condition.expr, self._box)
        return high < condition.low or condition.high <= low


@dataclass(eq=False)
class Block:
    """Statements of one scope. `variables` are those bound here; `lane_axis` is in force here and below;
    `facts` are conditions known to hold. `sequential`: its loops run through a whole axis in order, so that a
    scan may carry a value through them."""

    writer: Writer
    parent: Block | None = None
    variables: set[int] = field(default_factory=set)
    lane_axis: LaneAxis | None = None
    barrier: bool = False
    sequential: bool = False
    facts: frozenset[Within] = frozenset()
    statements: list[Stmt] = field(default_factory=list)
    memo: dict[Hashable, Value] = field(default_factory=dict)

    def inner(
        self,
        variables: Iterable[int] = (),
        *,
        lane_axis: LaneAxis | None = None,
        barrier: bool = False,
        sequential: bool = False,
        facts: Iterable[Within] = (),
    ) -> Block:
        """A block inside this one; it inherits the lane axis unless it has its own."""
        return Block(
            self.writer,
            self,
            set(variables),
            lane_axis or self.lane_axis,
            barrier,
            sequential,
            self.facts | frozenset(facts),
        )

    def home(self, axes: frozenset[int]) -> Block:
        """The outermost block where a value that depends on the variables `axes` may be computed."""
        block = self
        while block.parent is not None and not block.barrier and not block.variables & axes:
            block = block.parent
        return block

    def find(self, key: Hashable) -> Value | None:
        """What was computed under `key` in this block or around it."""
        block: Block | None = self
        while block is not None:
            if key in block.memo:
                return block.memo[key]
            block = block.parent
        return None

    def moves_in_lanes(self, axes: frozenset[int]) -> bool:
        """Whether something that depends on the variables `axes` differs between lanes."""
        return self.lane_axis is not None and self.lane_axis.variable in axes

    # --- statements ---

    def add(self, stmt: Stmt) -> None:
        self.statements.append(stmt)

    def let(self, name: str, value: Value, *, mutable: bool = False) -> Reg | Const:
        """`value` in a register; a constant or register stays as it is."""
        if isinstance(value, _SIMPLE) and not mutable:
            return value
        register = Reg(self.writer.fresh(name), value.dtype)
        self.add(Let(register.name, value, mutable))
        return register

    def assign(self, register: Reg, value: Value) -> None:
        self.add(Assign(register.name, value))

    def accumulate(self, register: Reg, fn: str, value: Value) -> None:
        """register = fn(register, value)."""
        self.assign(register, Call(fn, (register, value), register.dtype))

    def loop(
        self, body: Block, variable: int, start: AxisExpr, stop: AxisExpr, step: int = 1, limit: int | None = None
    ) -> None:
        """Adds the loop whose body is the finished block `body`, with the bounds that say something."""
        if limit is not None:
            low, high = interval(stop, self.writer.box)
            stop, limit = (AxisExpr(limit), None) if low >= limit else (stop, limit if high > limit else None)
        self.add(For(variable, start, stop, tuple(body.statements), step, limit))

    def guard(self, body: Block, conditions: Iterable[Within]) -> None:
        """Adds the statements of `body`, run where all conditions hold."""
        self.add(If(tuple(conditions), tuple(body.statements)))

    def store(self, buffer: str, offset: AxisExpr, value: Value, *, stream: bool = False) -> None:
        """`value` to `buffer`, in the lanes that exist; one element where no lane axis moves the offset."""
        step = 1
        count: int | AxisExpr = 1
        if self.lane_axis is not None and self.lane_axis.variable in offset.axes:
            found = offset.coeff(self.lane_axis.variable)
            if found is None:
                raise AssertionError(f"the lanes of a store to {buffer} are not evenly spaced")
            step, count = found, self.lane_axis.count or self.writer.lanes
        whole = count == self.writer.lanes
        self.add(
            Store(
                self.writer.buffer(buffer),
                offset,
                value,
                None if whole else count,
                step,
                stream and whole and step == 1,
            )
        )
