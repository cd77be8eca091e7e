"""Removes from a kernel register arrays that nothing reads, with the statements that set their elements."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import (
    Element,
    Epilogue,
    GpuFor,
    GpuIf,
    LdGlobalVec,
    LdMatrix,
    LdSharedVec,
    MmaSync,
    SetElement,
    StGlobalVec,
    Stmt,
    StSharedVec,
    Wgmma,
)
from ir.kernel.nodes import values_of, walk


def without_unread(kernel: GpuKernel) -> GpuKernel:
    """The kernel without the registers that are set but never read."""
    read = set(_read(kernel.body))
    filled = {stmt.registers for stmt in walk(kernel.body) if isinstance(stmt, LdGlobalVec | LdSharedVec | LdMatrix)}
    unread = frozenset(register.name for register in kernel.registers if register.name not in read | filled)
    if not unread:
        return kernel
    kept = tuple(register for register in kernel.registers if register.name not in unread)
    return msgspec.structs.replace(kernel, body=_without(kernel.body, unread), registers=kept)


def _read(body: tuple[Stmt, ...]) -> Iterator[str]:
    for stmt in walk(body):
        yield from (value.registers for value in values_of(stmt) if isinstance(value, Element))
        match stmt:
            case StGlobalVec() | StSharedVec():
                yield stmt.registers
            case MmaSync():
                yield from (stmt.acc, stmt.a, stmt.b)
            case Epilogue() | Wgmma():
                yield stmt.acc


def _without(body: tuple[Stmt, ...], unread: frozenset[str]) -> tuple[Stmt, ...]:
    kept: list[Stmt] = []
    for stmt in body:
        match stmt:
            case SetElement() if stmt.registers in unread:
                continue
            case GpuFor() | Epilogue():
                kept.append(msgspec.structs.replace(stmt, body=_without(stmt.body, unread)))
            case GpuIf():
                then, orelse = _without(stmt.then, unread), _without(stmt.orelse, unread)
                kept.append(msgspec.structs.replace(stmt, then=then, orelse=orelse))
            case _:
                kept.append(stmt)
    return tuple(kept)
