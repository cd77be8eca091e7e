"""The values and statements of the CPU dialect: what vectors of lanes hold, and what is done with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from ir.index.expr import AxisExpr
from ir.kernel.nodes import Bind, Comment, Const, KernelNode, Reg, Within

# Values: registers of `lanes` elements. `dtype` is that of the register, never fp16 or bf16.


class Lanes(KernelNode, frozen=True):
    """`expr` with `variable` advanced by the lane number: the values of an index (i32 or i64) in neighbouring
    lanes; equal lanes where `variable` is None."""

    expr: AxisExpr
    variable: int | None
    dtype: str


class Inside(KernelNode, frozen=True):
    """A mask: of the first `count` lanes (all when None) those in which all `conditions` hold, with `variable`
    advanced by the lane number."""

    conditions: tuple[Within, ...]
    variable: int
    count: int | AxisExpr | None = None
    dtype: str = "bool"


class CpuCall(KernelNode, frozen=True):
    """A prelude function, lane by lane: `eq_<fn>_<type of the last argument>`; "cast" converts to `dtype`."""

    fn: str
    args: tuple[Value, ...]
    dtype: str


class Load(KernelNode, frozen=True):
    """`count` elements (all lanes when None; the others are 0) of `buffer` from element `offset`.

    unit: neighbours. splat: one element in all lanes. strided: `step` elements apart.
    gather: at offset + `index` (i64 lanes). Of unit and gather `mask` says which lanes exist (all when None).
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
    """A register, defined until the end of its block; `mutable` ones may be assigned."""

    name: str
    value: Value
    mutable: bool = False


class CpuAssign(KernelNode, frozen=True):
    name: str
    value: Value


class Store(KernelNode, frozen=True):
    """The first `count` lanes (all when None) to `buffer` from element `offset`, `step` elements apart."""

    buffer: str
    offset: AxisExpr
    value: Value
    count: int | AxisExpr | None = None
    step: int = 1


class CpuPick(KernelNode, frozen=True):
    """Sets a variable to an i64 register's first lane, held within the variable's range: an index from data."""

    variable: int
    value: Value


class CpuFor(KernelNode, frozen=True):
    """`variable` from `start` while it is below min(stop, limit)."""

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
    """lanes × lanes elements turned: element j of row i of `source` becomes element i of row j of `buffer`. Rows
    start at the offsets and are `step` elements apart."""

    buffer: str
    offset: AxisExpr
    step: int
    source: str
    source_offset: AxisExpr
    source_step: int


Stmt: TypeAlias = Comment | CpuLet | CpuAssign | Store | Bind | CpuPick | CpuFor | CpuIf | Transpose


def children(node: Value) -> tuple[Value, ...]:
    """The values that a value is computed from."""
    match node:
        case CpuCall():
            return node.args
        case Load():
            return tuple(each for each in (node.index, node.mask) if each is not None)
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
    """The values in a statement itself, not in its body: operands before what uses them."""
    match stmt:
        case CpuLet() | CpuAssign() | Store() | CpuPick():
            yield from _below(stmt.value)


def _below(value: Value) -> Iterator[Value]:
    for child in children(value):
        yield from _below(child)
    yield value
