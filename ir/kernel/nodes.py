"""The nodes that kernels of both machines share: variables with ranges, conditions, constants, registers, and the
statements that set registers and variables, repeat and choose.

The dialects (`ir.kernel.cpu`, `ir.kernel.gpu`) add values and statements of their machine. `Let`, `Assign` and `Pick`
take the values of a dialect. `For` and `If` are subclassed, since a dialect's statements contain themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, cast

import msgspec

from ir.index.expr import AxisExpr

V = TypeVar("V", covariant=True)
N = TypeVar("N", bound="KernelNode")


def _tag(name: str) -> str:
    """The name of a node in JSON, the same in both dialects: `let`, `for`, …"""
    return name.removeprefix("Cpu").removeprefix("Gpu").lower()


class KernelNode(msgspec.Struct, frozen=True, tag_field="node", tag=_tag):
    """A part of a kernel: a value or a statement."""

    @property
    def operands(self) -> tuple[KernelNode, ...]:
        """The values in a node itself, not in the statements inside: `value`, if the node has one."""
        value = getattr(self, "value", None)
        return (value,) if isinstance(value, KernelNode) else ()

    @property
    def bodies(self) -> tuple[tuple[KernelNode, ...], ...]:
        """The blocks of statements inside a statement."""
        return ()


class Variable(msgspec.Struct, frozen=True):
    """An integer of the kernel with its range: `low` and `high` are inclusive."""

    name: str
    low: int
    high: int


class Within(msgspec.Struct, frozen=True):
    """low ≤ expr < high."""

    expr: AxisExpr
    low: int
    high: int


class Const(KernelNode, frozen=True):
    """The same number in every lane; "inf", "-inf" and "nan" are strings."""

    number: bool | int | float | str
    dtype: str


class Reg(KernelNode, frozen=True):
    """The register `name`, set by a `Let` or `Assign`."""

    name: str
    dtype: str


class Comment(KernelNode, frozen=True):
    text: str


class Bind(KernelNode, frozen=True):
    """Sets a variable until the end of the block: to max(min(expr, *most), *least)."""

    variable: int
    expr: AxisExpr
    most: tuple[AxisExpr, ...] = ()
    least: tuple[AxisExpr, ...] = ()


class Let(KernelNode, Generic[V], frozen=True):
    """A register, defined until the end of its block; only a `mutable` one may be assigned."""

    name: str
    value: V
    mutable: bool = False


class Assign(KernelNode, Generic[V], frozen=True):
    """Sets a mutable register."""

    name: str
    value: V


class Pick(KernelNode, Generic[V], frozen=True):
    """Sets a variable to an integer from data, clamped to the variable's range. On a CPU the first lane counts."""

    variable: int
    value: V


class For(KernelNode, frozen=True):
    """Runs `body` with `variable` = start, start + step, … below `stop`."""

    variable: int
    start: AxisExpr
    stop: AxisExpr
    body: tuple[KernelNode, ...]
    step: int = 1

    @property
    def bodies(self) -> tuple[tuple[KernelNode, ...], ...]:
        return (self.body,)


class If(KernelNode, frozen=True):
    """Runs `then` where all conditions hold, else `orelse`."""

    conditions: tuple[Within, ...]
    then: tuple[KernelNode, ...]
    orelse: tuple[KernelNode, ...] = ()

    @property
    def bodies(self) -> tuple[tuple[KernelNode, ...], ...]:
        return (self.then, self.orelse)


def walk(body: Sequence[N]) -> Iterator[N]:
    """All statements, outer before inner, in order. Statements contain only statements of their own dialect."""
    for stmt in body:
        yield stmt
        for inner in stmt.bodies:
            yield from walk(cast(tuple[N, ...], inner))


def values_of(node: KernelNode) -> Iterator[KernelNode]:
    """The values in a statement itself, not in its blocks: operands before their users."""
    for operand in node.operands:
        yield from values_of(operand)
        yield operand


def register_type(dtype: str) -> str:
    """The dtype of a register that holds values of `dtype`: fp32 for fp16 and bf16."""
    return "fp32" if dtype in ("fp16", "bf16") else dtype


BITS_OF_HALF = "u16"
"""The dtype of a register that holds the bits of a 16-bit float, which a register of fp32 would change if it is NaN."""


def accessed_as(dtype: str, register: str) -> str | None:
    """The dtype as which registers of dtype `register` are loaded from and stored to elements of `dtype`: its own, or
    the bits of a 16-bit float. None where they do not go together."""
    if register_type(dtype) == register:
        return dtype
    return BITS_OF_HALF if dtype in ("fp16", "bf16") and register == BITS_OF_HALF else None
