"""The loops of a module: calls that run once per trip, on memory that moves from trip to trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec


class LoopWindow(msgspec.Struct, frozen=True):
    """The memory of a slot in each trip of a loop: in trip t it begins at byte `start + t * step` of the slot
    `tensors[t % len(tensors)]`; but in trip 0 it is the whole slot `initial`, if there is one.

    Elements of a scanned tensor are windows of one slot. A state alternates between two slots.
    """

    slot: str
    tensors: tuple[str, ...]
    start: int = 0
    step: int = 0
    initial: str | None = None

    @property
    def bases(self) -> tuple[str, ...]:
        """The slots in which the window lies."""
        return self.tensors if self.initial is None else (self.initial, *self.tensors)


class Copy(msgspec.Struct, frozen=True):
    """A copy of a whole slot into another one, of `nbytes` bytes both."""

    source: str
    target: str
    nbytes: int


class Loop(msgspec.Struct, frozen=True):
    """The calls `first` to `end` (excluded; positions in `Module.running`) run in every one of `trips` trips. Each trip
    begins with the copies `loads` and ends with `copies`. loops: inner ones, in order; a loop begins before the call at
    its `first` position."""

    name: str
    trips: int
    first: int
    end: int
    windows: tuple[LoopWindow, ...]
    loads: tuple[Copy, ...] = ()
    copies: tuple[Copy, ...] = ()
    loops: tuple[Loop, ...] = ()

    def __str__(self) -> str:
        return f"loop {self.name}: calls {self.first}..{self.end - 1}, {self.trips} trips"


def steps(loops: Sequence[Loop], first: int, end: int) -> Iterator[int | Loop]:
    """The calls and loops between two positions, in order: positions of calls, and the loops around others."""
    at = first
    for loop in loops:
        yield from range(at, loop.first)
        yield loop
        at = loop.end
    yield from range(at, end)


def with_inner(loops: Sequence[Loop]) -> Iterator[Loop]:
    """The loops, each before its inner ones."""
    for loop in loops:
        yield loop
        yield from with_inner(loop.loops)


def counts_of_runs(loops: Sequence[Loop], calls: int) -> tuple[int, ...]:
    """How often each of so many calls runs in one call of the program."""
    counts = [1] * calls
    for loop in with_inner(loops):
        for position in range(loop.first, loop.end):
            counts[position] *= loop.trips
    return tuple(counts)


def slots_of_loops(loops: Sequence[Loop]) -> tuple[str, ...]:
    """The slots in which windows lie, and those that copies read and write, each once; windows excluded."""
    names: dict[str, None] = {}
    for loop in with_inner(loops):
        for window in loop.windows:
            names |= dict.fromkeys(window.bases)
        for copy in (*loop.loads, *loop.copies):
            names |= dict.fromkeys((copy.source, copy.target))
    windows = {window.slot for loop in with_inner(loops) for window in loop.windows}
    return tuple(name for name in names if name not in windows)
