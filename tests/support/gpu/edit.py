"""Edits GPU kernels, to test that the verifier and the emulator notice the changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.nodes import Epilogue, GpuFor, GpuIf, Stmt
from ir.kernel.nodes import walk

Change = Callable[[Stmt], tuple[Stmt, ...]]
"""What stands in a statement's place; its blocks are changed already."""


def edited(kernel: GpuKernel, change: Change) -> GpuKernel:
    """The kernel with every statement changed."""
    return msgspec.structs.replace(kernel, body=_block(kernel.body, change))


def without(kernel: GpuKernel, kind: type, number: int) -> GpuKernel:
    """The kernel without its statement `number` of a kind, in the order of its text."""
    doomed = [stmt for stmt in walk(kernel.body) if isinstance(stmt, kind)][number]
    return edited(kernel, lambda stmt: () if stmt is doomed else (stmt,))


def changed(kernel: GpuKernel, kind: type, number: int | None = None, **fields: object) -> GpuKernel:
    """The kernel with fields of its statement `number` of a kind (of all: None) replaced; a function is given the
    statement."""
    statements = [stmt for stmt in walk(kernel.body) if isinstance(stmt, kind)]
    chosen = statements if number is None else [statements[number]]

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if not any(stmt is target for target in chosen):
            return (stmt,)
        return (msgspec.structs.replace(stmt, **{k: v(stmt) if callable(v) else v for k, v in fields.items()}),)

    return edited(kernel, change)


def _block(body: tuple[Stmt, ...], change: Change) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for stmt in body:
        inner = stmt
        match stmt:
            case GpuFor() | Epilogue():
                below = _block(stmt.body, change)
                inner = stmt if _same(below, stmt.body) else msgspec.structs.replace(stmt, body=below)
            case GpuIf():
                then, orelse = _block(stmt.then, change), _block(stmt.orelse, change)
                if not (_same(then, stmt.then) and _same(orelse, stmt.orelse)):
                    inner = msgspec.structs.replace(stmt, then=then, orelse=orelse)
        result += change(inner)
    return tuple(result)


def _same(a: tuple[Stmt, ...], b: tuple[Stmt, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
