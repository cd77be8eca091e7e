"""Loops that copy bytes become copies. A vector has as many bytes as floats, which is a quarter of a register; a copy
moves whole registers.

    for k = 0, 16, … 256:  rows[k] := x[at + k]                        copy 256 from x[at] to rows[0]
    for k = 0, 16, … 256:  v = 0; if c: v = x[at + k]; rows[k] := v    if c: copy; else the loop with v = 0
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ir.index.expr import AxisExpr
from ir.kernel.cpu.nodes import CopyElements, CpuFor, CpuIf, Load, Stmt, Store
from ir.kernel.nodes import Assign, Const, Let, Reg, Within

_BYTES = ("i8", "u8")


def as_copy(loop: CpuFor, lanes: int) -> Stmt:
    """The statement that copies the bytes that the loop copies; else the loop."""
    count = loop.stop - loop.start
    if loop.step != lanes or loop.limit is not None or count.terms or count.const <= 0 or count.const % lanes:
        return loop
    match loop.body:
        case (Let(name, Load() as load), Store(value=Reg(stored)) as store) if stored == name:
            return _copy(loop, load, store, count.const) or loop
        case (
            Let(name, Const() as other, True),
            CpuIf(conditions, (Let(inner, Load() as load), Assign(target, Reg(loaded))), ()),
            Store(value=Reg(stored)) as store,
        ) if name == target == stored and inner == loaded and not _any_depends(conditions, loop.variable):
            copy = _copy(loop, load, store, count.const)
            filled = msgspec.structs.replace(loop, body=(msgspec.structs.replace(store, value=other),))
            return loop if copy is None else CpuIf(conditions, (copy,), (filled,))
    return loop


def _copy(loop: CpuFor, load: Load, store: Store, count: int) -> CopyElements | None:
    """The copy of the loop's elements, if whole vectors of neighbouring bytes are loaded and stored."""
    is_whole = load.mode == "unit" and load.count is None and load.mask is None and store.count is None
    source, to = (_first(loop, offset) for offset in (load.offset, store.offset))
    if (
        not is_whole
        or store.step != 1
        or load.dtype not in _BYTES
        or load.buffer == store.buffer
        or source is None
        or to is None
    ):
        return None
    return CopyElements(store.buffer, to, load.buffer, source, count)


def _first(loop: CpuFor, offset: AxisExpr) -> AxisExpr | None:
    """The offset in the first turn; None if the offset does not grow as the loop's variable."""
    parts = offset.split(loop.variable)
    return parts[1] + loop.start if parts is not None and parts[0] == 1 else None


def _any_depends(conditions: Iterable[Within], variable: int) -> bool:
    return any(variable in condition.expr.axes for condition in conditions)
