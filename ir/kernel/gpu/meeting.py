"""Checks that blocks see the stores of other blocks to the workspace, in the order of the kernel's statements.

stored → Barrier, unless only thread 0 has stored → Fence → TakeTicket
TakeTicket → Fence → AnyThread → may be read; or TakeTicket → AwaitTicket → Fence → Barrier → may be read

A ticket says how many blocks have stored, so that a vote on tickets decides whether the block may read. A barrier
decides nothing: before the barrier the block must have waited. It waits after it has published its own stores, since
other blocks may wait for these.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

from ir.kernel.gpu.kernel import COUNTER, THREAD, GpuKernel
from ir.kernel.gpu.nodes import (
    AnyThread,
    AwaitTicket,
    Barrier,
    CpAsync,
    Fence,
    GpuIf,
    LdGlobalVec,
    LoadGlobal,
    StGlobal,
    StGlobalVec,
    TakeTicket,
)
from ir.kernel.gpu.places import Facts, narrow_box
from ir.kernel.nodes import KernelNode, values_of


class _MeetingStage(enum.IntEnum):
    """How far a block has come from its own stores to reading the stores of other blocks."""

    STORED = 0
    AGREED = 1
    """All threads of the block know of its stores, or there are none."""
    FENCED = 2
    COUNTED = 3
    SEEN = 4
    """The thread that took the ticket sees the stores of the other blocks."""
    SHARED = 5


_MISSING = {
    _MeetingStage.STORED: "no ticket has been taken for it",
    _MeetingStage.AGREED: "no ticket has been taken for it",
    _MeetingStage.FENCED: "no ticket has been taken for it",
    _MeetingStage.COUNTED: "no fence since the ticket",
    _MeetingStage.SEEN: "since the fence no vote on a ticket, and no barrier after an awaited ticket",
}
"""The step that is missing before a read in this stage."""


def workspace_hazards(kernel: GpuKernel) -> list[str]:
    """Stores published, and buffers read, too early: one message for each."""
    parts = frozenset(buffer.name for buffer in kernel.workspace if buffer.dtype != COUNTER)
    return list(dict.fromkeys(_WorkspaceWalk(kernel, parts).block(kernel.body, ()))) if kernel.workspace else []


class _WorkspaceWalk:
    def __init__(self, kernel: GpuKernel, parts: frozenset[str]) -> None:
        self.box, self.parts = kernel.box, parts
        self.stage = _MeetingStage.FENCED
        self.waited = False

    def block(self, body: Sequence[KernelNode], facts: Facts) -> Iterator[str]:
        for stmt in body:
            yield from self._stmt(stmt, facts)
            for number, inner in enumerate(stmt.bodies):
                inside = (*facts, *stmt.conditions) if isinstance(stmt, GpuIf) and number == 0 else facts
                yield from self.block(inner, inside)

    def _stmt(self, stmt: KernelNode, facts: Facts) -> Iterator[str]:
        read = [value.buffer for value in values_of(stmt) if isinstance(value, LoadGlobal)]
        for buffer in [*read, *([stmt.buffer] if isinstance(stmt, LdGlobalVec | CpAsync) else [])]:
            if buffer in self.parts and self.stage is not _MeetingStage.SHARED:
                yield f"{buffer} is read, to which other blocks store: {_MISSING[self.stage]}"
        match stmt:
            case StGlobal() | StGlobalVec() if stmt.buffer in self.parts:
                alone = self.stage is not _MeetingStage.STORED and self._is_first_thread((*facts, *stmt.where))
                self.stage = _MeetingStage.AGREED if alone else _MeetingStage.STORED
            case Barrier() | AnyThread():
                if self.stage is _MeetingStage.STORED:
                    self.stage = _MeetingStage.AGREED
                elif self.stage is _MeetingStage.SEEN and (self.waited or isinstance(stmt, AnyThread)):
                    self.stage = _MeetingStage.SHARED
            case Fence():
                if self.stage is _MeetingStage.STORED:
                    yield "a fence with no barrier since all threads stored what it publishes"
                self.stage = (
                    _MeetingStage.SEEN if self.stage is _MeetingStage.COUNTED else max(self.stage, _MeetingStage.FENCED)
                )
            case TakeTicket():
                if self.stage < _MeetingStage.FENCED:
                    yield f"a ticket of {stmt.buffer} with no fence since the stores before it"
                self.stage, self.waited = _MeetingStage.COUNTED, False
            case AwaitTicket():
                if self.stage < _MeetingStage.COUNTED:
                    yield f"an await of {stmt.buffer} with no ticket that publishes the stores of this block before it"
                self.stage, self.waited = _MeetingStage.COUNTED, True

    def _is_first_thread(self, facts: Facts) -> bool:
        inside = narrow_box(facts, self.box)
        return inside is None or inside[THREAD] == (0, 0)
