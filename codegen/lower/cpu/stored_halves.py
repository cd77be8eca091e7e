"""Values that are rounded to a 16-bit float in order to be stored: the store takes the bits of the nearest such float.

v = round_bf16(x); y[i] := v        y[i] := bits_of_nearest_bf16(x)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from ir.dtype import HALVES
from ir.kernel.cpu.kernel import CpuParam, Phase, Scratch
from ir.kernel.cpu.nodes import CpuCall, CpuFor, CpuIf, Load, Stmt, Store, Value
from ir.kernel.nodes import BITS_OF_HALF, Bind, Comment, Let, Reg, values_of, walk

_ROUNDINGS = {"round_f16": "bits_of_nearest_f16", "round_bf16": "bits_of_nearest_bf16"}
"""Functions that round to a 16-bit float, and those that give the bits of the rounded value."""


def round_in_stores(phases: Sequence[Phase], buffers: Iterable[CpuParam | Scratch]) -> tuple[Phase, ...]:
    """The phases with stores that round, where nothing else reads the rounded value."""
    halves = {buffer.name for buffer in buffers if buffer.dtype in HALVES}
    if not halves:
        return tuple(phases)
    values = (value for phase in phases for stmt in walk(phase.body) for value in values_of(stmt))
    once = {name for name, count in Counter(v.name for v in values if isinstance(v, Reg)).items() if count == 1}
    return tuple(msgspec.structs.replace(phase, body=_block(phase.body, halves, once)) for phase in phases)


def _block(body: Sequence[Stmt], halves: set[str], once: set[str]) -> tuple[Stmt, ...]:
    """The statements of a block, without roundings that a store of the block takes over."""
    rounded: dict[str, tuple[int, CpuCall]] = {}
    result: list[Stmt | None] = []
    for stmt in body:
        match stmt:
            case Let(name, CpuCall(fn, (operand,))) if fn in _ROUNDINGS and name in once and _is_pure(operand):
                rounded[name] = len(result), CpuCall(_ROUNDINGS[fn], (operand,), BITS_OF_HALF)
            case Store(buffer, value=Reg(name)) if name in rounded and buffer in halves:
                place, bits = rounded.pop(name)
                result[place] = None
                stmt = msgspec.structs.replace(stmt, value=bits)
            case Let() | Store() | Bind() | Comment():
                pass
            case CpuFor():
                stmt = msgspec.structs.replace(stmt, body=_block(stmt.body, halves, once))
                rounded.clear()
            case CpuIf():
                then, orelse = (_block(branch, halves, once) for branch in (stmt.then, stmt.orelse))
                stmt = msgspec.structs.replace(stmt, then=then, orelse=orelse)
                rounded.clear()
            case _:
                rounded.clear()  # a register that was rounded may change
        result.append(stmt)
    return tuple(stmt for stmt in result if stmt is not None)


def _is_pure(value: Value) -> bool:
    """Whether the value is computed from registers alone, so that it may be computed behind further stores."""
    return not isinstance(value, Load) and not any(isinstance(operand, Load) for operand in values_of(value))
