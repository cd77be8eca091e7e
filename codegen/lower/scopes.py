"""What kernels under construction share, whatever they are written for: names and variables, and scopes that hoist.

A value is written into the outermost scope in which all variables that it depends on are bound, and once only:
`Scope.home` finds the scope, `Scope.memo` remembers what is there. A barrier keeps its values in: outside of it, of a
guard for one, their loads could leave their buffers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, Self, TypeVar

from ir.index.expr import AxisExpr, Box, axis, interval, substitute
from ir.index.map import Guard
from ir.kernel.nodes import Variable, Within

V = TypeVar("V")


class Names:
    """A kernel's variables with their ranges, and the names in it; those of `taken` are no longer free."""

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

    def bounds(self, expr: AxisExpr) -> tuple[int, int]:
        """The least and the greatest value of an expression over the variables, or numbers beyond them."""
        return interval(expr, self._box)

    def at(self, exprs: Iterable[AxisExpr], point: tuple[AxisExpr, ...]) -> tuple[AxisExpr, ...]:
        """Expressions over axes, with the axes at `point`."""
        return tuple(substitute(expr, point, self._box) for expr in exprs)

    def conditions(self, guard: Guard, point: tuple[AxisExpr, ...]) -> tuple[Within, ...]:
        """When a guard's map reads, at a point."""
        exprs = self.at((bound.expr for bound in guard.bounds), point)
        return tuple(Within(expr, bound.lo, bound.hi) for expr, bound in zip(exprs, guard.bounds, strict=True))

    def proves(self, condition: Within) -> bool:
        """Whether the condition holds wherever the variables are."""
        low, high = self.bounds(condition.expr)
        return condition.low <= low and high < condition.high

    def refutes(self, condition: Within) -> bool:
        """Whether the condition holds nowhere."""
        low, high = self.bounds(condition.expr)
        return high < condition.low or condition.high <= low


class Scope(Generic[V]):
    """A place for statements inside another; `variables` are those bound here."""

    parent: Self | None
    variables: set[int]
    barrier: bool
    memo: dict[Hashable, V]

    def home(self, axes: frozenset[int]) -> Self:
        """The outermost scope where a value that depends on the variables `axes` may be computed."""
        scope = self
        while scope.parent is not None and not scope.barrier and not scope.variables & axes:
            scope = scope.parent
        return scope

    def find(self, key: Hashable) -> V | None:
        """What was computed under `key` in this scope or around it."""
        scope: Scope[V] | None = self
        while scope is not None:
            if key in scope.memo:
                return scope.memo[key]
            scope = scope.parent
        return None
