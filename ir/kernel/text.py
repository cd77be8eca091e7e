"""The part of the printed form that both dialects share: variables, index expressions, conditions, blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from ir.index.text import Writing
from ir.kernel.nodes import Bind, Variable, Within

S = TypeVar("S")


class KernelPrinter(ABC, Generic[S]):
    """Prints statements of a kernel with these variables."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables = variables
        self.index = Writing(self.variable).text

    @abstractmethod
    def stmt(self, stmt: S, depth: int = 0) -> Iterator[str]:
        """The lines of a statement, its blocks indented below it."""

    def block(self, body: Sequence[S], depth: int) -> list[str]:
        """The lines of statements, one after another."""
        return [line for stmt in body for line in self.stmt(stmt, depth)]

    def variable(self, number: int) -> str:
        """The name of a variable."""
        return self._variables[number].name

    def bind(self, stmt: Bind) -> str:
        """`variable = expression`, with its limits."""
        parts = [self.index(stmt.expr)]
        parts += [f"at most {self.index(limit)}" for limit in stmt.most]
        parts += [f"at least {self.index(limit)}" for limit in stmt.least]
        return f"{self.variable(stmt.variable)} = {', '.join(parts)}"

    def within(self, within: Within) -> str:
        """One condition: `0 <= i < 4`."""
        return f"{within.low} <= {self.index(within.expr)} < {within.high}"

    def all(self, conditions: Sequence[Within]) -> str:
        """The conjunction of conditions."""
        return " and ".join(map(self.within, conditions)) or "true"
