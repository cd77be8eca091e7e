"""The whole program after extraction: calls of regions in order, the buffers between them, their live ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from ir.dtype import dtype
from ir.index.strides import row_major
from ir.module.loop import Loop, counts_of_runs, with_inner
from ir.region.order import Order, order_text
from ir.region.region import MemRef, Region

STAGE = "module"
MOST_BYTES = 1 << 44
"""Bytes of a tensor or an arena stay below this: more than any machine has, and far from integer overflow."""

Role = Literal["input", "output", "constant", "arena", "window"]


class Placement(msgspec.Struct, frozen=True):
    """The box of the tensor in another slot that a tensor is: from `first` on along `axis`, whole along other axes."""

    slot: str
    axis: int
    first: int


class Slot(msgspec.Struct, frozen=True):
    """A tensor of the program and its place in memory.

    role: the caller has "input" and "output", a "constant" is known at compile time, an "arena" tensor lives from
    call `first` to call `last` (positions in `Module.calls`, both inclusive) at byte `offset` of the arena. A "window"
    lies in other slots, in each trip of a loop at another place (`ir.module.loop.LoopWindow`).
    order: the tensor's axes in memory, if not row-major; `memref` is the buffer with its axes in that order.
    inside: where an arena tensor lies in another one. The tensors inside of another one fill that one; no call writes
    that one itself.
    over: the input over which an output is written: both are the same memory of the caller.
    """

    name: str
    memref: MemRef
    role: Role
    first: int = 0
    last: int = 0
    offset: int = 0
    order: Order | None = None
    inside: Placement | None = None
    over: str | None = None

    def __str__(self) -> str:
        where = f" @{self.offset} calls {self.first}..{self.last}" if self.role == "arena" else ""
        if self.inside is not None:
            where += f" in {self.inside.slot} from {self.inside.first} along i{self.inside.axis}"
        if self.over is not None:
            where += f" over {self.over}"
        return f"{self.role} {self.name}: {self.memref}{order_text(self.order)}{where}"


def slots_around(slot: Slot, slots: Mapping[str, Slot]) -> Iterator[Slot]:
    """The slots inside of which a slot lies, the innermost first. slots: by name."""
    while slot.inside is not None:
        slot = slots[slot.inside.slot]
        yield slot


def outermost(slot: Slot, slots: Mapping[str, Slot]) -> tuple[Slot, int]:
    """The slot that lies inside of no other one and in which this one lies, and the bytes before this one in it. slots:
    by name."""
    nbytes = 0
    for outer in slots_around(slot, slots):
        assert slot.inside is not None
        step = row_major(outer.memref.frame)[slot.inside.axis]
        nbytes += slot.inside.first * step * dtype(outer.memref.dtype).bytes
        slot = outer
    return slot, nbytes


class KernelCall(msgspec.Struct, frozen=True):
    """A region applied to `args`: the slots of the region's inputs, then of its outputs. Calls that differ only in
    their arguments share a region but are kernels of their own: names of calls are unique.

    `when` is "compile" if the region reads constants only: the call runs once, when the program is built. `uops` are
    the Tiny nodes that it computes, `tags` the tags of these nodes, in order; `rules` are the rules that built it, once
    per node. `fills` are the slots inside of which its results lie, so that it fills parts of them.
    """

    name: str
    region: Region
    args: tuple[str, ...]
    when: Literal["compile", "run"] = "run"
    uops: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The slots of the region's inputs."""
        return self.args[: len(self.region.inputs)]

    @property
    def writes(self) -> tuple[str, ...]:
        """The slots of the region's outputs."""
        return self.args[len(self.region.inputs) :]

    def __str__(self) -> str:
        once = "once " if self.when == "compile" else ""
        return f"{once}{', '.join(self.writes)} = {self.name}({', '.join(self.reads)})"


def writers_of(calls: Sequence[KernelCall]) -> dict[str, list[int]]:
    """Slot → the places of the calls that write it, or parts of it."""
    writers: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        for name in (*call.writes, *call.fills):
            writers.setdefault(name, []).append(place)
    return writers


class Module(msgspec.Struct, frozen=True):
    """The program. `outputs` are pairs of a program output and its slot, in order. An input or a constant may be an
    output, and two outputs may have one slot: the runtime copies it. Calls that run once, when the program is built,
    come before the others. `loops` are in order."""

    name: str
    slots: tuple[Slot, ...]
    calls: tuple[KernelCall, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    arena_bytes: int = 0
    loops: tuple[Loop, ...] = ()

    @property
    def regions(self) -> tuple[Region, ...]:
        """The distinct regions, in the order of their first call."""
        return tuple({call.region.name: call.region for call in self.calls}.values())

    @property
    def running(self) -> tuple[KernelCall, ...]:
        """The calls that every run makes, in order."""
        return tuple(call for call in self.calls if call.when == "run")

    @property
    def runs(self) -> tuple[int, ...]:
        """How often each of the running calls runs in one call of the program."""
        return counts_of_runs(self.loops, len(self.running))

    @property
    def orders(self) -> dict[str, Order]:
        """The orders of the slots that are not row-major, by name."""
        return {slot.name: slot.order for slot in self.slots if slot.order is not None}

    @property
    def constants(self) -> tuple[str, ...]:
        """The constants that come from outside, not from a compile-time call."""
        computed = {name for call in self.calls for name in call.writes}
        return tuple(slot.name for slot in self.slots if slot.role == "constant" and slot.name not in computed)

    def __str__(self) -> str:
        head = f"module {self.name}({', '.join(self.inputs)}), arena {self.arena_bytes} bytes"
        results = ", ".join(name if name == slot else f"{name} = {slot}" for name, slot in self.outputs)
        loops = map(str, with_inner(self.loops))
        lines = [head, *map(str, self.slots), *map(str, self.calls), *loops, f"return {results}"]
        return "\n  ".join(lines) + "\n\n" + "\n\n".join(map(str, self.regions))
