"""Names, variables and scopes of kernels under construction, for CPUs and GPUs.

A value is computed once, in the outermost scope in which all variables that it depends on are bound: `Scope.home` finds
the scope, `Scope.memo` holds the values computed there. Values do not leave a barrier, as the body of a guard is one:
outside, their loads could be out of bounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, Self, TypeVar, cast

from ir.index.expr import AxisExpr, Box, axis, interval, substitute
from ir.index.map import Guard
from ir.kernel.nodes import Assign, Const, Let, Reg, Variable, Within


class RegisterValue(Protocol):
    """A value of a dialect, as far as scopes need it."""

    @property
    def dtype(self) -> str:
        """The dtype of the register."""
        ...


V = TypeVar("V", bound=RegisterValue)
S = TypeVar("S")


class Names:
    """The variables of a kernel with their ranges, and the names in use; names of `taken` are in use from the start."""

    def __init__(self, variables: Iterable[Variable] = (), taken: Iterable[str] = ()) -> None:
        self.variables: list[Variable] = list(variables)
        self._box: Box = tuple((variable.low, variable.high) for variable in self.variables)
        self._used = dict.fromkeys(taken, 1)
        self._buffers: dict[str, str] = {}

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
        """The range of every variable, for `ir.index.expr`."""
        return self._box

    def fresh(self, name: str) -> str:
        """A C name that is not in use, made from `name`."""
        clean = "".join(char if char.isalnum() and char.isascii() else "_" for char in name)
        if not clean[:1].isalpha():
            clean = f"v{clean}"
        count = self._used[clean] = self._used.get(clean, 0) + 1
        return clean if count == 1 else self.fresh(f"{clean}_{count}")

    def buffer(self, name: str) -> str:
        """The name in this kernel of the region's buffer `name`."""
        number = self._buffers.get(name)
        if number is None:
            number = self._buffers[name] = self.fresh(name)
        return number

    def share_buffer(self, name: str, other: str) -> None:
        """Makes `name` another name of the region's buffer `other`."""
        self._buffers[name] = self.buffer(other)

    def bounds(self, expr: AxisExpr) -> tuple[int, int]:
        """The least and the greatest value of an expression over the variables, or numbers beyond them."""
        return interval(expr, self._box)

    def at(self, exprs: Iterable[AxisExpr], point: tuple[AxisExpr, ...]) -> tuple[AxisExpr, ...]:
        """Expressions over axes, with the axes at `point`."""
        return tuple(substitute(expr, point, self._box) for expr in exprs)

    def conditions(self, guard: Guard, point: tuple[AxisExpr, ...]) -> tuple[Within, ...]:
        """The conditions under which a guard's map reads at a point."""
        exprs = self.at((bound.expr for bound in guard.bounds), point)
        return tuple(Within(expr, bound.lo, bound.hi) for expr, bound in zip(exprs, guard.bounds, strict=True))

    def proves(self, condition: Within) -> bool:
        """Whether the condition holds for all values of the variables."""
        low, high = self.bounds(condition.expr)
        return condition.low <= low and high < condition.high

    def refutes(self, condition: Within) -> bool:
        """Whether the condition holds for no value of the variables."""
        low, high = self.bounds(condition.expr)
        return high < condition.low or condition.high <= low


class Scope(Generic[V, S]):
    """Statements inside another scope, of a dialect with values V and statements S. `variables` are bound here."""

    writer: Names
    parent: Self | None
    variables: set[int]
    barrier: bool
    memo: dict[Hashable, V]
    statements: list[S]

    def add(self, *statements: S) -> None:
        """Adds statements at the end."""
        self.statements += statements

    def let(self, name: str, value: V, *, mutable: bool = False) -> Reg | Const:
        """`value` in a new register; a constant or a register is returned as it is."""
        if isinstance(value, Reg | Const) and not mutable:
            return value
        register = Reg(self.writer.fresh(name), value.dtype)
        self.add(cast(S, Let(register.name, value, mutable)))
        return register

    def assign(self, register: Reg, value: V) -> None:
        """Sets a mutable register."""
        self.add(cast(S, Assign(register.name, value)))

    def home(self, axes: frozenset[int]) -> Self:
        """The outermost scope where a value that depends on the variables `axes` may be computed."""
        scope = self
        while scope.parent is not None and not scope.barrier and not scope.variables & axes:
            scope = scope.parent
        return scope

    def find(self, key: Hashable) -> V | None:
        """The value computed under `key` in this scope or around it; None where there is none."""
        scope: Scope[V, S] | None = self
        while scope is not None:
            if key in scope.memo:
                return scope.memo[key]
            scope = scope.parent
        return None
