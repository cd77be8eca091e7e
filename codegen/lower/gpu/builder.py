"""GPU kernels under construction: variables, registers, shared memory, and nested blocks of statements.

    writer = GpuWriter(threads=128, grid=(8, 1, 1))
    block = GpuBlock(writer)
    with block.loop("i", constant(4), unroll=True) as (body, i):
        with body.guard(Within(i + writer.thread * 4, 0, 500)) as inside:
            inside.add(...)

Blocks hoist as `codegen.lower.scopes` tells.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from codegen.lower.scopes import Names, Scope
from ir.index.expr import ZERO, AxisExpr, coordinates, floordiv, interval, mod
from ir.index.text import Remainder, bounds, pieces
from ir.kernel.gpu.kernel import (
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    IDS,
    LANE,
    THREAD,
    WARP,
    GpuKernel,
    GpuParam,
    Registers,
    Shared,
    id_variables,
)
from ir.kernel.gpu.nodes import GpuFor, GpuIf, Stmt, Value, used_variables
from ir.kernel.gpu.places import narrow_box, value_range
from ir.kernel.nodes import Bind, Within

_ID_VARIABLES = frozenset(range(len(IDS)))


class GpuWriter(Names):
    """The parts of a kernel that exist once: variables, names, registers, shared memory, the workspace of blocks."""

    def __init__(self, threads: int, grid: tuple[int, int, int]) -> None:
        super().__init__(id_variables(threads, grid), taken=IDS)
        self.threads, self.grid = threads, grid
        self.registers: list[Registers] = []
        self.shared: list[Shared] = []
        self.workspace: list[GpuParam] = []

    def kernel(self, name: str, arch: str, params: Sequence[GpuParam], body: GpuBlock, comment: str) -> GpuKernel:
        """The kernel that was written, for the architecture `arch`."""
        return GpuKernel(
            name=name,
            arch=arch,
            threads=self.threads,
            grid=self.grid,
            params=tuple(params),
            variables=tuple(self.variables),
            body=tuple(body.statements),
            shared=tuple(self.shared),
            registers=tuple(self.registers),
            workspace=tuple(self.workspace),
            comment=comment,
        )

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

    # --- expressions ---

    def split(self, expr: AxisExpr, size: int) -> tuple[AxisExpr, AxisExpr]:
        """(expr // size, expr % size)."""
        return floordiv(expr, size, self._box), mod(expr, size, self._box)

    def coordinates(self, counter: AxisExpr, sizes: Sequence[int]) -> list[AxisExpr]:
        """The coordinates of point number `counter` of a row-major box; numbers beyond it continue along the first
        axis."""
        return coordinates(counter, sizes, self._box)

    def bounds(self, expr: AxisExpr) -> tuple[int, int]:
        """As `Names.bounds`, but tighter for remainders."""
        return bounds(expr, self._box)

    # --- registers and shared memory ---

    def array(self, name: str, dtype: str, count: int, *, zero: bool = False) -> str:
        """The name of a new array of registers."""
        self.registers.append(Registers(self.fresh(name), dtype, count, zero))
        return self.registers[-1].name

    def allocate(self, shared: Shared) -> Shared:
        """Adds a shared buffer, under a new name."""
        self.shared.append(msgspec.structs.replace(shared, name=self.fresh(shared.name)))
        return self.shared[-1]

    def meet(self, name: str, dtype: str, shape: tuple[int, ...]) -> str:
        """The name of a new buffer in the kernel's workspace, which all blocks can read and write."""
        self.workspace.append(GpuParam(self.fresh(name), dtype, shape, written=True))
        return self.workspace[-1].name


@dataclass(eq=False)
class GpuBlock(Scope[Value, Stmt]):
    """Statements of one scope. `variables` are bound here; `facts` hold here and in blocks inside."""

    writer: GpuWriter
    parent: GpuBlock | None = None
    variables: set[int] = field(default_factory=set)
    barrier: bool = False
    facts: frozenset[Within] = frozenset()
    statements: list[Stmt] = field(default_factory=list)
    memo: dict[Hashable, Value] = field(default_factory=dict)
    indices: dict[AxisExpr, AxisExpr] = field(default_factory=dict)
    """By floor or remainder of ids: the variable that is bound to it, in the outermost block."""

    def inner(self, variables: Iterable[int] = (), *, barrier: bool = False, facts: Iterable[Within] = ()) -> GpuBlock:
        """A block inside this one."""
        return GpuBlock(self.writer, self, set(variables), barrier, self.facts | frozenset(facts))

    def knows(self, condition: Within) -> bool:
        """Whether the condition holds here."""
        if condition in self.facts or self.writer.proves(condition):
            return True
        low, high = value_range(condition.expr, tuple(self.facts), self.writer.box)
        return condition.low <= low and high < condition.high

    # --- statements ---

    def bind(self, name: str, expr: AxisExpr, high: int) -> AxisExpr:
        """min(expr, high) of an `expr` that is not negative, as a variable `name` unless it is simple."""
        if not expr.terms:
            return AxisExpr(min(expr.const, high))
        first, last = self._range(expr)
        if last <= high and expr.is_affine and first >= 0:
            return expr
        variable = self.writer.variable(name, 0, high)
        most, least = (AxisExpr(high),) if last > high else (), (ZERO,) if first < 0 else ()
        self.add(Bind(variable, expr, most, least))
        self.variables.add(variable)
        return self.writer.axis(variable)

    def affine(self, expr: AxisExpr) -> AxisExpr:
        """The expression as a sum of variables: floors and remainders of the thread's and the block's ids are bound
        once, before all loops."""
        root = self
        while root.parent is not None:
            root = root.parent
        const, parts = pieces(expr)
        total = AxisExpr(const)
        for times, piece in parts:
            whole = piece.plain if isinstance(piece, Remainder) else AxisExpr(0, ((piece, 1),))
            if not whole.is_affine and whole.axes <= _ID_VARIABLES:
                if whole not in root.indices:
                    root.indices[whole] = root.bind("id_part", whole, bounds(whole, self.writer.box)[1])
                whole = root.indices[whole]
            total += whole * times
        return total

    def _range(self, expr: AxisExpr) -> tuple[int, int]:
        """The least and the greatest value of an expression here."""
        facts = tuple(self.facts)
        return value_range(expr, facts, narrow_box(facts, self.writer.box) or self.writer.box)

    def used_statements(self) -> tuple[Stmt, ...]:
        """The statements, without variables that no statement reads."""
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
    ) -> Iterator[tuple[GpuBlock, AxisExpr]]:
        """The body of a loop, and its variable; for one iteration, this block and the start."""
        low, high = interval(start, self.writer.box)[0], interval(stop, self.writer.box)[1] - 1
        if not start.terms and not stop.terms and low <= high < low + step:
            yield self, start
            return
        variable = self.writer.variable(name, low, max(low, high))
        body = self.inner({variable})
        yield body, self.writer.axis(variable)
        if low <= high:
            self.add(GpuFor(variable, start, stop, tuple(body.statements), step, unroll))

    @contextmanager
    def guard(self, *conditions: Within) -> Iterator[GpuBlock]:
        """A block that runs where all conditions hold; conditions that are known to hold are left out."""
        unproven = tuple(condition for condition in conditions if not self.knows(condition))
        if not unproven:
            yield self
            return
        body = self.inner(barrier=True, facts=unproven)
        yield body
        if body.statements and not any(map(self.writer.refutes, unproven)):
            self.add(GpuIf(unproven, tuple(body.statements)))
