"""GPU kernels under construction: variables, registers, shared memory, and nested blocks of statements.

    writer = Writer(threads=128, grid=(8, 1, 1))
    block = Block(writer)
    with block.loop("i", constant(4), unroll=True) as (body, i):
        with body.guard(Within(i + writer.thread * 4, 0, 500)) as inside:
            inside.add(...)

A value goes into the outermost block in which all variables that it depends on are bound, and once only: `Block.home`
finds that block, `Block.memo` remembers what is there. A barrier block keeps its values in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from ir.axis_expr import ZERO, AxisExpr, Box, axis, coordinates, floordiv, interval, mod, substitute
from ir.gpu import (
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    IDS,
    LANE,
    THREAD,
    WARP,
    Registers,
    Shared,
    id_variables,
)
from ir.gpu_nodes import Assign, For, If, Let, Stmt, Value, used_variables
from ir.gpu_places import value_range
from ir.index_text import bounds
from ir.kernel_nodes import Bind, Const, Reg, Variable, Within

_SIMPLE = (Const, Reg)


class Writer:
    """What a kernel has one of: variables, names, registers, shared memory."""

    def __init__(self, threads: int, grid: tuple[int, int, int]) -> None:
        self.threads, self.grid = threads, grid
        self.variables: list[Variable] = list(id_variables(threads, grid))
        self.registers: list[Registers] = []
        self.shared: list[Shared] = []
        self._box: Box = tuple((each.low, each.high) for each in self.variables)
        self._used = dict.fromkeys(IDS, 1)
        self._buffers: dict[str, str] = {}

    # --- where a thread stands ---

    @property
    def thread(self) -> AxisExpr:
        return self.axis(THREAD)

    @property
    def lane(self) -> AxisExpr:
        return self.axis(LANE)

    @property
    def warp(self) -> AxisExpr:
        return self.axis(WARP)

    @property
    def block(self) -> tuple[AxisExpr, AxisExpr, AxisExpr]:
        """The block's place in the grid, x first."""
        return self.axis(BLOCK_X), self.axis(BLOCK_Y), self.axis(BLOCK_Z)

    # --- names ---

    def fresh(self, name: str) -> str:
        """A C name not used before, made of `name`."""
        clean = "".join(each if each.isalnum() and each.isascii() else "_" for each in name)
        if not clean[:1].isalpha():
            clean = f"v{clean}"
        count = self._used[clean] = self._used.get(clean, 0) + 1
        return clean if count == 1 else self.fresh(f"{clean}_{count}")

    def buffer(self, name: str) -> str:
        """The name in this kernel of the region's buffer `name`."""
        found = self._buffers.get(name)
        if found is None:
            found = self._buffers[name] = self.fresh(name)
        return found

    # --- variables ---

    def variable(self, name: str, low: int, high: int) -> int:
        """A new variable with values in [low, high]; its number."""
        self.variables.append(Variable(self.fresh(name), low, high))
        self._box = (*self._box, (low, high))
        return len(self.variables) - 1

    def axis(self, variable: int) -> AxisExpr:
        """The variable as an expression: a constant where it has one value."""
        return axis(variable, self._box)

    @property
    def box(self) -> Box:
        """The range of every variable, for `ir.axis_expr`."""
        return self._box

    def split(self, expr: AxisExpr, size: int) -> tuple[AxisExpr, AxisExpr]:
        """(expr // size, expr % size)."""
        return floordiv(expr, size, self._box), mod(expr, size, self._box)

    def coordinates(self, counter: AxisExpr, sizes: Sequence[int]) -> list[AxisExpr]:
        """Of point number `counter` of a row-major box; a number beyond it goes on along the first axis."""
        return coordinates(counter, sizes, self._box)

    def at(self, exprs: Iterable[AxisExpr], point: tuple[AxisExpr, ...]) -> tuple[AxisExpr, ...]:
        """Expressions over axes, with the axes at `point`."""
        return tuple(substitute(expr, point, self._box) for expr in exprs)

    def proves(self, condition: Within) -> bool:
        """Whether the condition holds wherever the variables are."""
        low, high = bounds(condition.expr, self._box)
        return condition.low <= low and high < condition.high

    def refutes(self, condition: Within) -> bool:
        """Whether the condition holds nowhere."""
        low, high = bounds(condition.expr, self._box)
        return high < condition.low or condition.high <= low

    # --- registers and shared memory ---

    def array(self, name: str, dtype: str, count: int, *, zero: bool = False) -> str:
        """An array of registers; its name."""
        self.registers.append(Registers(self.fresh(name), dtype, count, zero))
        return self.registers[-1].name

    def allocate(self, shared: Shared) -> Shared:
        """Shared memory, under a name of its own."""
        self.shared.append(msgspec.structs.replace(shared, name=self.fresh(shared.name)))
        return self.shared[-1]


@dataclass(eq=False)
class Block:
    """Statements of one scope. `variables` are those bound here; `facts` are conditions that hold here and below."""

    writer: Writer
    parent: Block | None = None
    variables: set[int] = field(default_factory=set)
    barrier: bool = False
    facts: frozenset[Within] = frozenset()
    statements: list[Stmt] = field(default_factory=list)
    memo: dict[Hashable, Value] = field(default_factory=dict)

    def inner(self, variables: Iterable[int] = (), *, barrier: bool = False, facts: Iterable[Within] = ()) -> Block:
        """A block inside this one."""
        return Block(self.writer, self, set(variables), barrier, self.facts | frozenset(facts))

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

    def knows(self, condition: Within) -> bool:
        """Whether the condition holds here."""
        if condition in self.facts or self.writer.proves(condition):
            return True
        low, high = value_range(condition.expr, tuple(self.facts), self.writer.box)
        return condition.low <= low and high < condition.high

    # --- statements ---

    def add(self, *statements: Stmt) -> None:
        self.statements += statements

    def let(self, name: str, value: Value, *, mutable: bool = False) -> Reg | Const:
        """`value` in a scalar; a constant or scalar stays as it is."""
        if isinstance(value, _SIMPLE) and not mutable:
            return value
        register = Reg(self.writer.fresh(name), value.dtype)
        self.add(Let(register.name, value, mutable))
        return register

    def assign(self, register: Reg, value: Value) -> None:
        self.add(Assign(register.name, value))

    def bind(self, name: str, expr: AxisExpr, high: int) -> AxisExpr:
        """`expr`, which is not negative, held to `high`, under a name; one that is simple needs none."""
        if not expr.terms:
            return AxisExpr(min(expr.const, high))
        first, last = bounds(expr, self.writer.box)
        if last <= high and expr.is_affine and first >= 0:
            return expr
        variable = self.writer.variable(name, 0, high)
        most, least = (AxisExpr(high),) if last > high else (), (ZERO,) if first < 0 else ()
        self.add(Bind(variable, expr, most, least))
        self.variables.add(variable)
        return self.writer.axis(variable)

    def used(self) -> tuple[Stmt, ...]:
        """The statements, without variables that none of them reads."""
        kept: list[Stmt] = []
        read: frozenset[int] = frozenset()
        for stmt in reversed(self.statements):
            if not isinstance(stmt, Bind) or stmt.variable in read:
                kept.append(stmt)
                read |= used_variables(stmt)
        return tuple(reversed(kept))

    @contextmanager
    def loop(
        self, name: str, stop: AxisExpr, *, start: AxisExpr = ZERO, step: int = 1, unroll: bool = False
    ) -> Iterator[tuple[Block, AxisExpr]]:
        """A loop's body, and its variable; a loop of one turn is none."""
        low, high = interval(start, self.writer.box)[0], interval(stop, self.writer.box)[1] - 1
        if not start.terms and not stop.terms and low <= high < low + step:
            yield self, start
            return
        variable = self.writer.variable(name, low, max(low, high))
        body = self.inner({variable})
        yield body, self.writer.axis(variable)
        if low <= high:
            self.add(For(variable, start, stop, tuple(body.statements), step, unroll))

    @contextmanager
    def guard(self, *conditions: Within) -> Iterator[Block]:
        """What is done where all conditions hold; nothing is asked that is known."""
        open_ = tuple(each for each in conditions if not self.knows(each))
        if not open_:
            yield self
            return
        body = self.inner(barrier=True, facts=open_)
        yield body
        if body.statements and not any(map(self.writer.refutes, open_)):
            self.add(If(open_, tuple(body.statements)))
