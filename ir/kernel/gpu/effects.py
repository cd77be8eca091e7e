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
    Epilogue,
    GpuFor,
    GpuIf,
    LdMatrix,
    LdSharedVec,
    LoadShared,
    Stmt,
    StShared,
    StSharedVec,
    SyncWarp,
    WaitGroup,
)
from ir.kernel.nodes import Bind, Pick, Within, values_of


class SharedAccess(msgspec.Struct, frozen=True):
    """An access to one stage of a shared buffer; "copy" is an asynchronous write."""

    kind: Literal["read", "store", "copy"]
    shared: str
    stage: AxisExpr


class Commit(msgspec.Struct, frozen=True):
    pass


class Wait(msgspec.Struct, frozen=True):
    pending: int


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


Effect: TypeAlias = "SharedAccess | Commit | Wait | Sync | Set | EffectLoop | Branch"


def effects(kernel: GpuKernel) -> tuple[Effect, ...]:
    """The effects of a kernel, in order; statements without effect are left out."""
    return tuple(_block(kernel.body))


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


def _block(body: Sequence[Stmt]) -> Iterator[Effect]:
    for stmt in body:
        for value in values_of(stmt):
            if isinstance(value, LoadShared):
                yield _access("read", value.source)
        yield from _stmt(stmt)


def _stmt(stmt: Stmt) -> Iterator[Effect]:
    match stmt:
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
            yield from _loop(stmt.variable, stmt.start, stmt.stop, stmt.step, tuple(_block(stmt.body)))
        case Epilogue():
            yield from _loop(stmt.variable, ZERO, constant(1), 1, tuple(_block(stmt.body)))
        case GpuIf():
            then, orelse = tuple(_block(stmt.then)), tuple(_block(stmt.orelse))
            if then or orelse:
                yield Branch(stmt.conditions, then, orelse)


def _loop(variable: int, start: AxisExpr, stop: AxisExpr, step: int, body: tuple[Effect, ...]) -> Iterator[EffectLoop]:
    if any(not isinstance(effect, Set) for effect in body):
        kinds = {effect.kind for effect in body if isinstance(effect, SharedAccess)}
        plain = all(isinstance(effect, SharedAccess) for effect in body) and len(kinds) == 1
        yield EffectLoop(variable, start, stop, step, plain and variable not in axes_of(body), body)


def _access(kind: Literal["read", "store", "copy"], at: At) -> SharedAccess:
    return SharedAccess(kind, at.shared, at.stage)
