"""The order in which a module reads and writes its slots, with its loops: the basis of lifetimes, and of checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ir.diagnostics import Kind, fail
from ir.module.loop import Copy, Loop, LoopWindow, steps
from ir.module.module import STAGE, Module


class Use(NamedTuple):
    """A slot that must hold its value from one position in `Module.calls` to another, both inclusive."""

    slot: str
    first: int
    last: int


def uses(module: Module) -> list[Use]:
    """All uses of slots. What a loop finds when it begins, or leaves when it ends, is in use through all of its trips.

    Raises:
        EqsatError: MalformedGraph for a slot that is read before it is written, or written a second time, and for a
            state that no trip writes.
    """
    once = [call for call in module.calls if call.when == "compile"]
    if any(call.when == "compile" for call in module.calls[len(once) :]):
        _refuse(module.name, "a call that runs once comes after calls that run every time")
    walk = _Walk(module, len(once))
    for position, call in enumerate(once):
        walk.call(position, call.name, call.reads, call.writes)
    walk.over(module.loops, 0, len(module.running))
    for name, slot in module.outputs:
        if slot not in walk.written:
            _refuse(name, "no call computes this output")
    return walk.uses


class _Walk:
    """A walk over a module in the order of its run. written: slots that hold a value. inside: slot → the slot in which
    it lies. unfilled: how many slots inside of a slot hold no value yet. overwrites: output → the input over which it
    is written."""

    def __init__(self, module: Module, once: int) -> None:
        self.calls = module.running
        self.once = once
        self.is_window = {slot.name for slot in module.slots if slot.role == "window"}
        self.inside = {slot.name: slot.inside.slot for slot in module.slots if slot.inside is not None}
        self.unfilled = Counter(self.inside.values())
        self.overwrites = {slot.name: slot.over for slot in module.slots if slot.over is not None}
        self.written = {*module.inputs, *module.constants}
        self.uses: list[Use] = []

    def over(self, loops: Sequence[Loop], first: int, end: int) -> None:
        for step in steps(loops, first, end):
            if isinstance(step, Loop):
                self._loop(step)
            else:
                call = self.calls[step]
                self.call(self.once + step, call.name, call.reads, call.writes)

    def call(self, position: int, name: str, reads: Sequence[str], writes: Sequence[str]) -> None:
        for slot in reads:
            self._read(slot, name)
            self.uses.append(Use(slot, position, position))
        for slot in writes:
            self._write(slot, name)
            self.uses.append(Use(slot, position, position))

    def _loop(self, loop: Loop) -> None:
        """A loop. Its windows that hold something when it begins are read, its others are written in every trip."""
        before, start = set(self.written), len(self.uses)
        read = [window for window in loop.windows if (window.initial or window.tensors[0]) in before]
        written = [window for window in loop.windows if window not in read]
        self.written |= {window.slot for window in read}
        self._copy(loop.loads, loop.name)
        self.over(loop.loops, loop.first, loop.end)
        self._copy(loop.copies, loop.name)
        for window in written:
            self._read(window.slot, loop.name)
        for window in read:
            _require_state(window, written, loop)
        self._keep_through(loop, before, start)
        self.written -= {window.slot for window in loop.windows}
        for slot in sorted({name for window in written for name in window.tensors}):
            self._write(slot, loop.name)

    def _copy(self, copies: Sequence[Copy], loop: str) -> None:
        for copy in copies:
            self._read(copy.source, loop)
            self._write(copy.target, loop)

    def _keep_through(self, loop: Loop, before: set[str], start: int) -> None:
        """Uses, through all trips, of the slots that the loop shares with the calls before and after the loop."""
        inside = (use.slot for use in self.uses[start:] if use.slot in before)
        carried = (name for window in loop.windows for name in window.bases)
        copied = [copy.source for copy in loop.copies] + [copy.target for copy in loop.loads]
        last = self.once + loop.end - 1
        first = min(self.once + loop.first, last)
        for slot in dict.fromkeys((*inside, *carried, *copied)):
            if slot not in self.is_window:
                self.uses.append(Use(slot, max(first, 0), max(self.once + loop.first, last)))

    def _read(self, slot: str, reader: str) -> None:
        if slot not in self.written:
            _refuse(slot, f"{reader} reads it before it is computed")

    def _write(self, slot: str, writer: str) -> None:
        if slot in self.written:
            _refuse(slot, f"{writer} writes it a second time")
        if self.unfilled[slot]:
            _refuse(slot, f"{writer} writes it, but other slots inside of it fill it")
        self.written.add(slot)
        if slot in self.overwrites:
            self.written.discard(self.overwrites[slot])
        if slot in self.inside:
            outer = self.inside[slot]
            self.unfilled[outer] -= 1
            if not self.unfilled[outer]:
                self._write(outer, writer)


def _require_state(window: LoopWindow, written: Sequence[LoopWindow], loop: Loop) -> None:
    """In every trip but the first, a state's window reads the elements that another window wrote in the trip before."""
    if window.initial is None or loop.trips == 1:
        return
    before = (*window.tensors[1:], *window.tensors[:1])
    writers = [other for other in written if other.tensors == before and (other.start, other.step) == (0, 0)]
    if len(before) != 2 or not writers or (window.start, window.step) != (0, 0):
        _refuse(window.slot, "no trip writes what the next trip reads")


def _refuse(at: str, message: str) -> None:
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=at)
