"""The values and statements of the GPU dialect: some compute in one thread, some are done by threads together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from ir.index.expr import ZERO, AxisExpr
from ir.kernel.nodes import Bind, Comment, Const, KernelNode, Reg, Within


class At(msgspec.Struct, frozen=True):
    """An element of shared memory: the buffer, the coordinates and the stage."""

    shared: str
    at: tuple[AxisExpr, ...]
    stage: AxisExpr = ZERO


# Values: scalars of one thread.


class Index(KernelNode, frozen=True):
    """The value of an index as i32 or i64, or rounded to a float."""

    expr: AxisExpr
    dtype: str = "i32"


class Holds(KernelNode, frozen=True):
    """Whether all conditions hold."""

    conditions: tuple[Within, ...]
    dtype: str = "bool"


class Call(KernelNode, frozen=True):
    """A device function on scalars: `eq_<fn>_<R of the last argument>`; "cast" converts to `dtype`; "pack_f16" and
    "pack_bf16" pack two values into a word."""

    fn: str
    args: tuple[Value, ...]
    dtype: str


class Element(KernelNode, frozen=True):
    """One register of an array."""

    registers: str
    index: AxisExpr
    dtype: str


class LoadGlobal(KernelNode, frozen=True):
    """One element; 0 if a condition in `where` fails, and memory is then not touched."""

    buffer: str
    at: tuple[AxisExpr, ...]
    dtype: str
    where: tuple[Within, ...] = ()


class LoadShared(KernelNode, frozen=True):
    """One element."""

    source: At
    dtype: str


class Shuffle(KernelNode, frozen=True):
    """The value of another lane of the warp: `eq_shfl_<way>`."""

    way: Literal["xor", "down", "up", "lane"]
    value: Value
    by: AxisExpr
    dtype: str


# Statements.


class Let(KernelNode, frozen=True):
    """A scalar, defined until the end of its block; only a `mutable` one may be assigned."""

    name: str
    value: Value
    mutable: bool = False


class Assign(KernelNode, frozen=True):
    name: str
    value: Value


class SetElement(KernelNode, frozen=True):
    """Sets one register of an array."""

    registers: str
    index: AxisExpr
    value: Value


class Pick(KernelNode, frozen=True):
    """Sets a variable to an integer from data, clamped to [0, the variable's greatest value]."""

    variable: int
    value: Value


class For(KernelNode, frozen=True):
    """Runs `body` with `variable` = start, start + step, … below stop. With `unroll` every turn is written out, and
    the variable may index registers."""

    variable: int
    start: AxisExpr
    stop: AxisExpr
    body: tuple[Stmt, ...]
    step: int = 1
    unroll: bool = False


class If(KernelNode, frozen=True):
    conditions: tuple[Within, ...]
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


class CpAsync(KernelNode, frozen=True):
    """Starts a copy of `nbytes` (4, 8 or 16) neighbours from memory to shared memory. If a condition in `where` fails,
    zeros are written and memory is not touched. `count` limits the elements that come from memory, clamped to the
    piece; zeros follow them."""

    to: At
    buffer: str
    at: tuple[AxisExpr, ...]
    nbytes: Literal[4, 8, 16]
    where: tuple[Within, ...] = ()
    count: AxisExpr | None = None


class CommitGroup(KernelNode, frozen=True):
    """Closes this thread's current group of copies, which may be empty."""


class WaitGroup(KernelNode, frozen=True):
    """Waits until all but the `pending` latest groups of this thread are complete. Only this thread then sees them."""

    pending: int


class Barrier(KernelNode, frozen=True):
    """A barrier of the block: afterwards all threads see the writes of all threads before it."""


class SyncWarp(KernelNode, frozen=True):
    """A barrier of the lanes of one warp."""


class AnyThread(KernelNode, frozen=True):
    """A barrier. Afterwards `variable` is 1 in all threads of the block if `value` holds in any thread, else 0."""

    variable: int
    value: Value


class Fence(KernelNode, frozen=True):
    """Orders this thread's earlier accesses to memory, and those that barriers showed it, before its later ones, for
    every thread of the device. A `TakeTicket` after a fence publishes stores; a fence after a `TakeTicket` makes the
    stores of other blocks visible."""


class TakeTicket(KernelNode, frozen=True):
    """Sets the scalar `name` to the number of earlier arrivals at this counter, of `count`. The last arrival resets
    the counter to 0. Without a `Fence` it orders nothing."""

    name: str
    buffer: str
    at: tuple[AxisExpr, ...]
    count: AxisExpr


class LdMatrix(KernelNode, frozen=True):
    """Loads `matrices` tiles of 8 × 8 halves, or of 8 × 4 words unless `trans`, into as many words from `index` on.
    `source` is the row that a lane addresses and depends on `LANE` (lane 8m + r: row r of tile m)."""

    registers: str
    index: AxisExpr
    source: At
    matrices: Literal[1, 2, 4]
    trans: bool = False


class MmaSync(KernelNode, frozen=True):
    """acc += a · b for one tile of a tensor core, from the given registers on (`eq_mma_<shape>_<dtype>`)."""

    shape: str
    dtype: str
    acc: str
    acc_index: AxisExpr
    a: str
    a_index: AxisExpr
    b: str
    b_index: AxisExpr


class Epilogue(KernelNode, frozen=True):
    """`body` for every register of `acc`, numbered by `variable`, unrolled: the ops applied to the accumulator in
    registers. `ops` are their names, for people."""

    acc: str
    ops: tuple[str, ...]
    variable: int
    body: tuple[Stmt, ...]


class LdGlobalVec(KernelNode, frozen=True):
    """Loads `count` neighbours at once into registers from `index` on: elements, or raw words if the registers are
    `WORD`s. Zeros if a condition in `where` fails."""

    registers: str
    index: AxisExpr
    count: int
    buffer: str
    at: tuple[AxisExpr, ...]
    where: tuple[Within, ...] = ()


class StGlobalVec(KernelNode, frozen=True):
    """Stores `count` registers at once to neighbours in memory: elements rounded to its dtype, or raw words. Stores
    nothing if a condition in `where` fails."""

    buffer: str
    at: tuple[AxisExpr, ...]
    registers: str
    index: AxisExpr
    count: int
    where: tuple[Within, ...] = ()


class StGlobal(KernelNode, frozen=True):
    """Stores one element, rounded to the buffer's dtype; nothing if a condition in `where` fails."""

    buffer: str
    at: tuple[AxisExpr, ...]
    value: Value
    where: tuple[Within, ...] = ()


class LdSharedVec(KernelNode, frozen=True):
    """As `LdGlobalVec`, but from shared memory."""

    registers: str
    index: AxisExpr
    count: int
    source: At


class StSharedVec(KernelNode, frozen=True):
    """As `StGlobalVec`, but to shared memory."""

    to: At
    registers: str
    index: AxisExpr
    count: int


class StShared(KernelNode, frozen=True):
    """Stores one element, rounded to the buffer's dtype."""

    to: At
    value: Value


Value: TypeAlias = Const | Reg | Index | Holds | Call | Element | LoadGlobal | LoadShared | Shuffle
Stmt: TypeAlias = (
    Comment
    | Bind
    | Pick
    | Let
    | Assign
    | SetElement
    | For
    | If
    | CpAsync
    | CommitGroup
    | WaitGroup
    | Barrier
    | SyncWarp
    | AnyThread
    | Fence
    | TakeTicket
    | LdMatrix
    | MmaSync
    | Epilogue
    | LdGlobalVec
    | StGlobalVec
    | StGlobal
    | LdSharedVec
    | StSharedVec
    | StShared
)


def children(value: Value) -> tuple[Value, ...]:
    """The operands of a value."""
    match value:
        case Call():
            return value.args
        case Shuffle():
            return (value.value,)
    return ()


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks inside a statement."""
    match stmt:
        case For() | Epilogue():
            return (stmt.body,)
        case If():
            return (stmt.then, stmt.orelse)
    return ()


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, outer before inner, in order."""
    for stmt in body:
        yield stmt
        for inner in bodies(stmt):
            yield from walk(inner)


def values_of(stmt: Stmt) -> Iterator[Value]:
    """The values in a statement itself, not in its body: operands before their users."""
    match stmt:
        case Let() | Assign() | SetElement() | Pick() | AnyThread() | StGlobal() | StShared():
            yield from _below(stmt.value)


def _below(value: Value) -> Iterator[Value]:
    for child in children(value):
        yield from _below(child)
    yield value


def used_variables(part: object) -> frozenset[int]:
    """The variables that the indices in a part of a kernel (one node or a tuple) depend on."""
    if isinstance(part, AxisExpr):
        return part.axes
    inner: tuple[object, ...] = ()
    if isinstance(part, tuple):
        inner = part
    elif isinstance(part, msgspec.Struct):
        inner = tuple(getattr(part, name) for name in part.__struct_fields__)
    return frozenset().union(*map(used_variables, inner))
