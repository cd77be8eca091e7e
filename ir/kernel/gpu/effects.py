"""The effects of a kernel's statements on shared memory and on the order of threads, with the control around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import (
    AnyLane,
    AnyThread,
    At,
    Barrier,
    CommitGroup,
    CpAsync,
    Element,
    Epilogue,
    GpuFor,
    GpuIf,
    LdGlobalVec,
    LdMatrix,
    LdSharedVec,
    LoadShared,
    MmaSync,
    ProxyFence,
    SetElement,
    StGlobalVec,
    Stmt,
    StShared,
    StSharedVec,
    SyncWarp,
    WaitGroup,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from ir.kernel.nodes import Bind, Pick, Within, values_of, walk

Kind: TypeAlias = Literal["read", "store", "copy", "product"]


class SharedAccess(msgspec.Struct, frozen=True):
    """An access to one stage of a shared buffer; "copy" is an asynchronous write, "product" an asynchronous read."""

    kind: Kind
    shared: str
    stage: AxisExpr


class Commit(msgspec.Struct, frozen=True):
    """Closes a group of copies, or of products."""

    products: bool = False


class Wait(msgspec.Struct, frozen=True):
    """Waits for all but the `pending` latest groups of copies, or of products."""

    pending: int
    products: bool = False


class ShowWrites(msgspec.Struct, frozen=True):
    """This thread's writes to shared memory may be shown to products by the next barrier."""


class Accumulate(msgspec.Struct, frozen=True):
    """Products are started that add to these accumulators."""

    acc: str


class Touch(msgspec.Struct, frozen=True):
    """Accumulators of products are read or written by threads."""

    acc: str


class OrderTouches(msgspec.Struct, frozen=True):
    """Earlier accesses of threads to these accumulators come before later products."""

    acc: str


class Sync(msgspec.Struct, frozen=True):
    """A barrier of the block, or of single warps."""

    block: bool


class Set(msgspec.Struct, frozen=True):
    """A variable set as `Bind` does. `known` is False if the value comes from data."""

    variable: int
    expr: AxisExpr = ZERO
    most: tuple[AxisExpr, ...] = ()
    least: tuple[AxisExpr, ...] = ()
    known: bool = True


class EffectLoop(msgspec.Struct, frozen=True):
    """`alike`: every turn has the same effect, and a second turn adds nothing to the first."""

    variable: int
    start: AxisExpr
    stop: AxisExpr
    step: int
    alike: bool
    body: tuple[Effect, ...]


class Branch(msgspec.Struct, frozen=True):
    conditions: tuple[Within, ...]
    then: tuple[Effect, ...]
    orelse: tuple[Effect, ...]


Effect: TypeAlias = (
    "SharedAccess | Commit | Wait | ShowWrites | Accumulate | Touch | OrderTouches | Sync | Set | EffectLoop | Branch"
)


def effects(kernel: GpuKernel) -> tuple[Effect, ...]:
    """The effects of a kernel, in order; statements without effect are left out."""
    accumulators = frozenset(stmt.acc for stmt in walk(kernel.body) if isinstance(stmt, Wgmma))
    return tuple(_block(kernel.body, accumulators))


def axes_of(tree: Sequence[Effect]) -> frozenset[int]:
    """The variables that the effects, or their conditions, depend on."""
    used: frozenset[int] = frozenset()
    for effect in tree:
        match effect:
            case SharedAccess():
                used |= effect.stage.axes
            case Set():
                used = used.union(*(expr.axes for expr in (effect.expr, *effect.most, *effect.least)))
            case EffectLoop():
                used |= effect.start.axes | effect.stop.axes | axes_of(effect.body)
            case Branch():
                used = used.union(*(condition.expr.axes for condition in effect.conditions))
                used |= axes_of(effect.then) | axes_of(effect.orelse)
    return used


def _block(body: Sequence[Stmt], accumulators: frozenset[str]) -> Iterator[Effect]:
    for stmt in body:
        for value in values_of(stmt):
            if isinstance(value, LoadShared):
                yield _access("read", value.source)
        yield from (Touch(name) for name in sorted(accumulators & _registers_of(stmt)))
        yield from _stmt(stmt, accumulators)


def _registers_of(stmt: Stmt) -> set[str]:
    """The arrays of registers that threads read or write in a statement itself."""
    names = {value.registers for value in values_of(stmt) if isinstance(value, Element)}
    match stmt:
        case SetElement() | LdMatrix() | LdGlobalVec() | StGlobalVec() | LdSharedVec() | StSharedVec():
            names.add(stmt.registers)
        case MmaSync():
            names |= {stmt.acc, stmt.a, stmt.b}
    return names


def _stmt(stmt: Stmt, accumulators: frozenset[str]) -> Iterator[Effect]:
    match stmt:
        case Wgmma():
            yield Accumulate(stmt.acc)
            yield _access("product", stmt.rows)
            yield _access("product", stmt.columns)
        case WgmmaFence():
            yield OrderTouches(stmt.acc)
        case WgmmaCommit():
            yield Commit(products=True)
        case WgmmaWait():
            yield Wait(stmt.pending, products=True)
        case ProxyFence():
            yield ShowWrites()
        case CpAsync():
            yield _access("copy", stmt.to)
        case LdMatrix() | LdSharedVec():
            yield _access("read", stmt.source)
        case StSharedVec() | StShared():
            yield _access("store", stmt.to)
        case CommitGroup():
            yield Commit()
        case WaitGroup():
            yield Wait(stmt.pending)
        case Barrier():
            yield Sync(True)
        case SyncWarp():
            yield Sync(False)
        case AnyThread():
            yield Sync(True)
            yield Set(stmt.variable, known=False)
        case Bind():
            yield Set(stmt.variable, stmt.expr, stmt.most, stmt.least)
        case Pick() | AnyLane():
            yield Set(stmt.variable, known=False)
        case GpuFor():
            yield from _loop(stmt.variable, stmt.start, stmt.stop, stmt.step, tuple(_block(stmt.body, accumulators)))
        case Epilogue():
            yield from _loop(stmt.variable, ZERO, constant(1), 1, tuple(_block(stmt.body, accumulators)))
        case GpuIf():
            then, orelse = (tuple(_block(body, accumulators)) for body in (stmt.then, stmt.orelse))
            if then or orelse:
                yield Branch(stmt.conditions, then, orelse)


def _loop(variable: int, start: AxisExpr, stop: AxisExpr, step: int, body: tuple[Effect, ...]) -> Iterator[EffectLoop]:
    if any(not isinstance(effect, Set) for effect in body):
        kinds = {effect.kind for effect in body if isinstance(effect, SharedAccess)}
        plain = all(isinstance(effect, SharedAccess | Touch) for effect in body) and len(kinds) <= 1
        yield EffectLoop(variable, start, stop, step, plain and variable not in axes_of(body), body)


def _access(kind: Kind, at: At) -> SharedAccess:
    return SharedAccess(kind, at.shared, at.stage)
