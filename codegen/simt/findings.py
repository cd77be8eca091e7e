"""The engine's findings in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from codegen.simt.abi import CFinding
from codegen.simt.report import Finding, FindingKind, Place

_KINDS = tuple(FindingKind)
_WAITS = (
    "runs",
    "has ended",
    "waits at a barrier",
    "waits to synchronise its warp",
    "waits for its warp to load matrices",
    "waits for its warp to multiply",
    "waits for its warp to shuffle",
    "waits for the ticket of a block that has not started",
    "waits for its warp to work as a part of a warpgroup",
)
"""The operations of a thread, in words, in the order of the engine's `Operation`."""
_ALL_LANES = 0xFFFFFFFF


def finding(
    raw: CFinding, kernel: str, lines: Sequence[str], buffers: Sequence[str], grid: tuple[int, int, int]
) -> Finding:
    """The finding `raw` in words; `lines` are the kernel's text, `buffers` the names of its buffers."""
    kind = _KINDS[raw.kind]
    buffer = _buffer(raw, buffers)
    return Finding(
        kind=kind,
        kernel=kernel,
        message=_MESSAGES[kind](raw, buffer or "shared memory"),
        place=_place(raw.line, lines, tuple(raw.block), raw.warp, raw.lane),
        first=_first(raw, lines, grid),
        buffer=buffer,
        offset=None if raw.offset == -1 and buffer is None else raw.offset,
        nbytes=0 if kind in _WAITING else raw.bytes,
        count=raw.count,
    )


def _buffer(raw: CFinding, buffers: Sequence[str]) -> str | None:
    if raw.buffer == -1:
        return None
    return buffers[raw.buffer] if raw.buffer < len(buffers) else "no buffer"


def _place(line: int, lines: Sequence[str], block: tuple[int, ...] | None, warp: int, lane: int) -> Place:
    known = 0 < line <= len(lines)
    return Place(
        line=line if known else None,
        code=lines[line - 1].strip() if known else "",
        block=block,
        warp=None if warp < 0 else warp,
        lane=None if lane < 0 else lane,
    )


def _first(raw: CFinding, lines: Sequence[str], grid: tuple[int, int, int]) -> Place | None:
    if raw.first_line == -1:
        return None
    number = raw.first_block
    block = None if number == -1 else (number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1])
    return _place(raw.first_line, lines, block, raw.first_warp, raw.first_lane)


def _access(stores: int) -> str:
    return "store" if stores else "load"


def _race(raw: CFinding, where: str) -> str:
    pair = f"a {_access(raw.stores)} and an earlier {_access(raw.first_stores)}"
    return f"{pair} of {where} at byte {raw.offset} are not ordered by any synchronisation"


def _block_race(raw: CFinding, where: str) -> str:
    pair = f"a {_access(raw.stores)} and another block's {_access(raw.first_stores)}"
    return f"{pair} of {where} at byte {raw.offset}: nothing was published from one to the other"


def _not_waited_for(raw: CFinding, where: str) -> str:
    state = "its group is committed, not waited for" if raw.lanes else "it is in no committed group"
    return f"a {_access(raw.stores)} of {where} at byte {raw.offset}, where an asynchronous copy is under way: {state}"


def _bounds(raw: CFinding, where: str) -> str:
    return f"a {_access(raw.stores)} of {raw.bytes} bytes at byte {raw.offset} of {where} is out of its bounds"


def _global_bounds(raw: CFinding, where: str) -> str:
    return f"{_bounds(raw, where)}: it has {raw.lanes} bytes" if where != "no buffer" else "an access of no buffer"


def _misalignment_text(raw: CFinding, where: str) -> str:
    return f"an access at byte {raw.offset} of {where} must be aligned to {raw.bytes} bytes"


def _waiting(raw: CFinding, why: str) -> str:
    lanes = raw.lanes & _ALL_LANES
    who = "all lanes" if lanes == _ALL_LANES else f"lanes {', '.join(map(str, _bits(lanes)))}"
    return f"{why}: warp {raw.warp}, {who}: {_WAITS[raw.bytes]}"


def _bits(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


_MESSAGES: Mapping[FindingKind, Callable[[CFinding, str], str]] = {
    FindingKind.SHARED_RACE: _race,
    FindingKind.UNINITIALISED_SHARED: lambda raw, where: f"{where} at byte {raw.offset} is read and was never written",
    FindingKind.COPY_NOT_WAITED_FOR: _not_waited_for,
    FindingKind.COPY_NEVER_WAITED_FOR: lambda raw, where: f"the kernel ends before its copy to byte {raw.offset} does",
    FindingKind.GLOBAL_RACE: _race,
    FindingKind.BLOCK_RACE: _block_race,
    FindingKind.GLOBAL_BOUNDS: _global_bounds,
    FindingKind.READ_ONLY_STORE: lambda raw, where: f"a store to {where}, which the kernel may only read",
    FindingKind.SHARED_BOUNDS: _bounds,
    FindingKind.MISALIGNED: _misalignment_text,
    FindingKind.SHARED_LIMIT: lambda raw, where: f"{raw.bytes} bytes of {where}: a block may have {raw.lanes}",
    FindingKind.BAD_OPERAND: lambda raw, where: f"{raw.lanes} valid bytes in a copy of {raw.bytes}",
    FindingKind.REGISTER_BOUNDS: lambda raw, where: "an access beyond an array of registers",
    FindingKind.DIVERGENT_WARP: lambda raw, where: _waiting(raw, "the lanes of a warp are not together"),
    FindingKind.DIVERGENT_BARRIER: lambda raw, where: _waiting(raw, "a barrier that not all threads reach"),
    FindingKind.DEADLOCK: lambda raw, where: _waiting(raw, "no thread can go on"),
    FindingKind.RUNAWAY: lambda raw, where: "the block does not end",
    FindingKind.COUNTER_LEFT: lambda raw, where: (
        f"the counter at byte {raw.offset} of {where} is left at {raw.lanes}, from which the next launch would go on"
    ),
    FindingKind.PRODUCT_UNDER_WAY: lambda raw, where: (
        f"a store to {where} at byte {raw.offset}, which products of a warpgroup may still read"
    ),
    FindingKind.NOT_FENCED_FOR_PRODUCTS: lambda raw, where: (
        f"products read {where} at byte {raw.offset}, with no proxy fence between the store to it and the barrier"
    ),
    FindingKind.ACCUMULATORS_TOUCHED: lambda raw, where: (
        "accumulators of products are touched before a wait, or were set with no fence before the product"
    ),
    FindingKind.PRODUCT_NEVER_WAITED_FOR: lambda raw, where: "the kernel ends before its products do",
}
_WAITING = (FindingKind.DIVERGENT_WARP, FindingKind.DIVERGENT_BARRIER, FindingKind.DEADLOCK)
