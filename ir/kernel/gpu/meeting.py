"""Whether blocks that meet in a kernel's workspace see what they read there: the statements in the order of the text.

stored → Barrier, unless thread 0 has stored alone → Fence → TakeTicket → Fence → Barrier or AnyThread → may be read
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from ir.kernel.gpu.kernel import COUNTER, THREAD, GpuKernel
from ir.kernel.gpu.nodes import (
    AnyThread,
    Barrier,
    CpAsync,
    Fence,
    If,
    LdGlobalVec,
    LoadGlobal,
    StGlobal,
    StGlobalVec,
    Stmt,
    TakeTicket,
    bodies,
    values_of,
)
from ir.kernel.gpu.places import Facts, narrowed


class _MeetingStage(enum.IntEnum):
    """How far a block is on its way from what it stores to what others stored."""

    STORED = 0
    TOLD = 1
    """All its threads know, or nothing is stored."""
    FENCED = 2
    COUNTED = 3
    SEEN = 4
    """By the thread that took the ticket."""
    SHARED = 5


_MISSING = {
    _MeetingStage.STORED: "no ticket has been taken for it",
    _MeetingStage.TOLD: "no ticket has been taken for it",
    _MeetingStage.FENCED: "no ticket has been taken for it",
    _MeetingStage.COUNTED: "no fence since the ticket",
    _MeetingStage.SEEN: "no barrier since the fence",
}
"""What a read lacks."""


def meetings(kernel: GpuKernel) -> list[str]:
    """What is published or read before its time."""
    parts = frozenset(each.name for each in kernel.workspace if each.dtype != COUNTER)
    return list(dict.fromkeys(_Walk(kernel, parts).block(kernel.body, ()))) if kernel.workspace else []


class _Walk:
    def __init__(self, kernel: GpuKernel, parts: frozenset[str]) -> None:
        self.box, self.parts = kernel.box, parts
        self.stage = _MeetingStage.TOLD

    def block(self, body: tuple[Stmt, ...], facts: Facts) -> Iterator[str]:
        for stmt in body:
            yield from self._stmt(stmt, facts)
            for number, inner in enumerate(bodies(stmt)):
                inside = (*facts, *stmt.conditions) if isinstance(stmt, If) and number == 0 else facts
                yield from self.block(inner, inside)

    def _stmt(self, stmt: Stmt, facts: Facts) -> Iterator[str]:
        read = [each.buffer for each in values_of(stmt) if isinstance(each, LoadGlobal)]
        for buffer in [*read, *([stmt.buffer] if isinstance(stmt, LdGlobalVec | CpAsync) else [])]:
            if buffer in self.parts and self.stage is not _MeetingStage.SHARED:
                yield f"{buffer} is read, which other blocks store to: {_MISSING[self.stage]}"
        match stmt:
            case StGlobal() | StGlobalVec() if stmt.buffer in self.parts:
                alone = self.stage is not _MeetingStage.STORED and self._is_first_thread((*facts, *stmt.where))
                self.stage = _MeetingStage.TOLD if alone else _MeetingStage.STORED
            case Barrier() | AnyThread():
                after = {_MeetingStage.STORED: _MeetingStage.TOLD, _MeetingStage.SEEN: _MeetingStage.SHARED}
                self.stage = after.get(self.stage, self.stage)
            case Fence():
                if self.stage is _MeetingStage.STORED:
                    yield "a fence, and no barrier has told that all threads have stored what it is to publish"
                self.stage = (
                    _MeetingStage.SEEN if self.stage is _MeetingStage.COUNTED else max(self.stage, _MeetingStage.FENCED)
                )
            case TakeTicket():
                if self.stage < _MeetingStage.FENCED:
                    yield f"a ticket of {stmt.buffer}, and no fence has published what is stored before it"
                self.stage = _MeetingStage.COUNTED

    def _is_first_thread(self, facts: Facts) -> bool:
        inside = narrowed(facts, self.box)
        return inside is None or inside[THREAD] == (0, 0)
