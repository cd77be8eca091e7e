"""The values and statements of the CPU dialect. A value is a register of `lanes` elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from ir.index.expr import AxisExpr
from ir.kernel.nodes import Bind, Comment, Const, KernelNode, Reg, Within

# Values. `dtype` is the dtype of the register, so never fp16 or bf16.


class Lanes(KernelNode, frozen=True):
    """`expr` with `variable` advanced by the lane number: the values of an index (i32 or i64) in neighbouring
    lanes. All lanes are equal if `variable` is None."""

    expr: AxisExpr
    variable: int | None
    dtype: str


class Inside(KernelNode, frozen=True):
    """A mask of the lanes, among the first `count` (None: all), in which all `conditions` hold; `variable` is
    advanced by the lane number."""

    conditions: tuple[Within, ...]
    variable: int
    count: int | AxisExpr | None = None
    dtype: str = "bool"


class CpuCall(KernelNode, frozen=True):
    """A prelude function applied lane by lane: `eq_<fn>_<type of the last argument>`; "cast" converts to `dtype`."""

    fn: str
    args: tuple[Value, ...]
    dtype: str


class Load(KernelNode, frozen=True):
    """`count` elements (None: all lanes; further lanes are 0) of `buffer` from element `offset`.

    unit: neighbours. splat: one element in all lanes. strided: `step` elements apart.
    gather: at offset + `index` (i64 lanes). In modes unit and gather `mask` selects the lanes to load (None: all).
    """

    buffer: str
    offset: AxisExpr
    dtype: str
    mode: Literal["unit", "splat", "strided", "gather"] = "unit"
    count: int | AxisExpr | None = None
    step: int = 1
    index: Value | None = None
    mask: Value | None = None


Value: TypeAlias = Const | Reg | Lanes | Inside | CpuCall | Load


# Statements.


class CpuLet(KernelNode, frozen=True):
    """A register, defined until the end of its block; only a `mutable` one may be assigned."""

    name: str
    value: Value
    mutable: bool = False


class CpuAssign(KernelNode, frozen=True):
    name: str
    value: Value


class Store(KernelNode, frozen=True):
    """Stores the first `count` lanes (None: all) to `buffer` from element `offset`, `step` elements apart."""

    buffer: str
    offset: AxisExpr
    value: Value
    count: int | AxisExpr | None = None
    step: int = 1


class CpuPick(KernelNode, frozen=True):
    """Sets a variable to the first lane of an i64 register, clamped to the variable's range: an index from data."""

    variable: int
    value: Value


class CpuFor(KernelNode, frozen=True):
    """Runs `body` with `variable` = start, start + step, … below min(stop, limit)."""

    variable: int
    start: AxisExpr
    stop: AxisExpr
    body: tuple[Stmt, ...]
    step: int = 1
    limit: int | None = None


class CpuIf(KernelNode, frozen=True):
    conditions: tuple[Within, ...]
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


class Transpose(KernelNode, frozen=True):
    """Transposes lanes × lanes elements: element j of row i of `source` becomes element i of row j of `buffer`. Rows
    start at the offsets and are `step` elements apart."""

    buffer: str
    offset: AxisExpr
    step: int
    source: str
    source_offset: AxisExpr
    source_step: int


Stmt: TypeAlias = Comment | CpuLet | CpuAssign | Store | Bind | CpuPick | CpuFor | CpuIf | Transpose


def children(node: Value) -> tuple[Value, ...]:
    """The operands of a value."""
    match node:
        case CpuCall():
            return node.args
        case Load():
            return tuple(operand for operand in (node.index, node.mask) if operand is not None)
    return ()


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, outer before inner, in order."""
    for stmt in body:
        yield stmt
        match stmt:
            case CpuFor():
                yield from walk(stmt.body)
            case CpuIf():
                yield from walk(stmt.then)
                yield from walk(stmt.orelse)


def values_of(stmt: Stmt) -> Iterator[Value]:
    """The values in a statement itself, not in its body: operands before their users."""
    match stmt:
        case CpuLet() | CpuAssign() | Store() | CpuPick():
            yield from _below(stmt.value)


def _below(value: Value) -> Iterator[Value]:
    for child in children(value):
        yield from _below(child)
    yield value
