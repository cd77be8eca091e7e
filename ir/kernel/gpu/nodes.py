"""The values and statements of the GPU dialect: some compute in one thread, some are done by threads together."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ir.index.expr import ZERO, AxisExpr
from ir.kernel.nodes import Assign, Bind, Comment, Const, For, If, KernelNode, Let, Pick, Reg, Within


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

    @property
    def operands(self) -> tuple[KernelNode, ...]:
        return self.args


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


class SetElement(KernelNode, frozen=True):
    """Sets one register of an array."""

    registers: str
    index: AxisExpr
    value: Value


class GpuFor(For, frozen=True):
    """A loop. With `unroll` every turn is written out, and the variable may index registers."""

    body: tuple[Stmt, ...]
    step: int = 1
    unroll: bool = False


class GpuIf(If, frozen=True):
    """A branch of the GPU dialect."""

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


class AnyLane(KernelNode, frozen=True):
    """Afterwards `variable` is 1 in all lanes of the warp if `value` holds in any lane, else 0. Orders no memory."""

    variable: int
    value: Value


class Fence(KernelNode, frozen=True):
    """Orders this thread's earlier accesses to memory, and those that barriers showed it, before its later ones, for
    every thread of the device. A `TakeTicket` after a fence publishes stores; a fence after a `TakeTicket` or an
    `AwaitTicket` makes the stores of other blocks visible."""


class TakeTicket(KernelNode, frozen=True):
    """Sets the scalar `name` to the number of earlier arrivals at this counter, of `count`. The last arrival resets
    the counter to 0. Without a `Fence` it orders nothing."""

    name: str
    buffer: str
    at: tuple[AxisExpr, ...]
    count: AxisExpr


class AwaitTicket(KernelNode, frozen=True):
    """Waits until a ticket of this counter has been taken, then arrives as `TakeTicket` does. Only a block that has
    started may be waited for. Without a `Fence` it orders nothing."""

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


class ProxyFence(KernelNode, frozen=True):
    """Makes this thread's writes to shared memory visible to products of warpgroups, once a barrier has followed."""


class WgmmaFence(KernelNode, frozen=True):
    """Orders the threads' accesses to the accumulators `acc` before the products that a `Wgmma` adds to them next."""

    acc: str


class Wgmma(KernelNode, frozen=True):
    """Starts acc += rows · columns for 16 terms: 64 rows of a warpgroup (four warps from a multiple of four on) and as
    many columns as its accumulators hold. Until a `WgmmaWait` the accumulators may not be touched, nor the operands
    overwritten.

    `rows` and `columns` are the first elements of the operands in shared memory whose rows of 128 bytes are swizzled:
    (row, term) where neighbours are terms; (panel, term, 0) where a panel has 64 rows, or columns, side by side.
    """

    dtype: str
    acc: str
    rows: At
    columns: At


class WgmmaCommit(KernelNode, frozen=True):
    """Closes the warpgroup's current group of products."""


class WgmmaWait(KernelNode, frozen=True):
    """Waits until all but the `pending` latest groups of products of this warpgroup are complete. The accumulators
    `acc` may be touched again when all products are complete that add to them."""

    acc: str
    pending: int


class Epilogue(KernelNode, frozen=True):
    """`body` for every register of `acc`, numbered by `variable`, unrolled: the ops applied to the accumulator in
    registers. `ops` are their names, for people."""

    acc: str
    ops: tuple[str, ...]
    variable: int
    body: tuple[Stmt, ...]

    @property
    def bodies(self) -> tuple[tuple[KernelNode, ...], ...]:
        return (self.body,)


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
    """Stores one element, rounded to the buffer's dtype, or its bits."""

    to: At
    value: Value


Value: TypeAlias = Const | Reg | Index | Holds | Call | Element | LoadGlobal | LoadShared | Shuffle
Stmt: TypeAlias = (
    Comment
    | Bind
    | Pick[Value]
    | Let[Value]
    | Assign[Value]
    | SetElement
    | GpuFor
    | GpuIf
    | CpAsync
    | CommitGroup
    | WaitGroup
    | Barrier
    | SyncWarp
    | AnyThread
    | AnyLane
    | Fence
    | TakeTicket
    | AwaitTicket
    | LdMatrix
    | MmaSync
    | ProxyFence
    | WgmmaFence
    | Wgmma
    | WgmmaCommit
    | WgmmaWait
    | Epilogue
    | LdGlobalVec
    | StGlobalVec
    | StGlobal
    | LdSharedVec
    | StSharedVec
    | StShared
)


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
