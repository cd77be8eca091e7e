"""The part of the printed form that both dialects share: variables, index expressions, conditions, and the statements
and values of `ir.kernel.nodes`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from ir.index.text import Writing
from ir.kernel.nodes import Assign, Bind, Comment, Const, For, If, KernelNode, Let, Reg, Variable, Within


class KernelPrinter(ABC):
    """Prints statements and values of a kernel with these variables."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables = variables
        self.index = Writing(self.variable).text

    def block(self, body: Sequence[KernelNode], depth: int) -> list[str]:
        """The lines of statements, one after another; the blocks inside a statement are indented below it."""
        return [line for stmt in body for line in self._stmt(stmt, depth)]

    def value(self, value: KernelNode) -> str:
        """A value as text."""
        match value:
            case Const():
                return str(value.number)
            case Reg():
                return value.name
        return self._dialect_value(value)

    def variable(self, number: int) -> str:
        """The name of a variable."""
        return self._variables[number].name

    def all(self, conditions: Sequence[Within]) -> str:
        """The conjunction of conditions."""
        return " and ".join(map(self._within, conditions)) or "true"

    @abstractmethod
    def _line(self, stmt: KernelNode) -> str:
        """A statement of the dialect in one line."""

    @abstractmethod
    def _dialect_value(self, value: KernelNode) -> str:
        """A value of the dialect."""

    @abstractmethod
    def _bounds(self, loop: For) -> str:
        """The end of a loop's bounds: what follows `start .. stop`."""

    def _stmt(self, stmt: KernelNode, depth: int) -> Iterator[str]:
        pad = "  " * depth
        yield pad + self._head(stmt)
        if isinstance(stmt, If):
            yield from self.block(stmt.then, depth + 1)
            if stmt.orelse:
                yield f"{pad}else"
                yield from self.block(stmt.orelse, depth + 1)
            return
        for body in stmt.bodies:
            yield from self.block(body, depth + 1)

    def _head(self, stmt: KernelNode) -> str:
        """The first line of a statement."""
        match stmt:
            case Comment():
                return f"# {stmt.text}"
            case Bind():
                return self._bind(stmt)
            case Let():
                return f"{stmt.name}: {stmt.value.dtype} {':=' if stmt.mutable else '='} {self.value(stmt.value)}"
            case Assign():
                return f"{stmt.name} := {self.value(stmt.value)}"
            case For():
                bounds = f"{self.index(stmt.start)} .. {self.index(stmt.stop)}{self._bounds(stmt)}"
                return f"for {self.variable(stmt.variable)} in {bounds}"
            case If():
                return f"if {self.all(stmt.conditions)}"
        return self._line(stmt)

    def _bind(self, stmt: Bind) -> str:
        parts = [self.index(stmt.expr)]
        parts += [f"at most {self.index(limit)}" for limit in stmt.most]
        parts += [f"at least {self.index(limit)}" for limit in stmt.least]
        return f"{self.variable(stmt.variable)} = {', '.join(parts)}"

    def _within(self, within: Within) -> str:
        return f"{within.low} <= {self.index(within.expr)} < {within.high}"
