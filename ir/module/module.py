"""The whole program after extraction: calls of regions in order, the buffers between them, their live ranges."""

from __future__ import annotations

from typing import Literal

import msgspec

from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.region.order import Order, order_text
from ir.region.region import MemRef, Region
from ir.region.region import verify as verify_region

STAGE = "module"
MOST_BYTES = 1 << 44
"""Bytes of a tensor or an arena stay below this: more than any machine has, and far from integer overflow."""

Role = Literal["input", "output", "constant", "arena"]


class Slot(msgspec.Struct, frozen=True):
    """A tensor of the program and its place in memory.

    role: the caller has "input" and "output", a "constant" is known at compile time, an "arena" tensor lives from
    call `first` to call `last` (positions in `Module.calls`, both inclusive) at byte `offset` of the arena.
    order: the tensor's axes in memory, if not row-major; `memref` is the buffer with its axes in that order.
    """

    name: str
    memref: MemRef
    role: Role
    first: int = 0
    last: int = 0
    offset: int = 0
    order: Order | None = None

    def __str__(self) -> str:
        where = f" @{self.offset} calls {self.first}..{self.last}" if self.role == "arena" else ""
        return f"{self.role} {self.name}: {self.memref}{order_text(self.order)}{where}"


class KernelCall(msgspec.Struct, frozen=True):
    """A region applied to `args`: the slots of the region's inputs, then of its outputs. Calls that differ only in
    their arguments share a region but are kernels of their own: names of calls are unique.

    `when` is "compile" if the region reads constants only: the call runs once, when the program is built. `uops` are
    the Tiny nodes that it computes; `rules` are the rules that built it, once per node.
    """

    name: str
    region: Region
    args: tuple[str, ...]
    when: Literal["compile", "run"] = "run"
    uops: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

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


class Module(msgspec.Struct, frozen=True):
    """The program. `outputs` are pairs of a program output and its slot, in order. An input or a constant may be an
    output, and two outputs may have one slot: the runtime copies it."""

    name: str
    slots: tuple[Slot, ...]
    calls: tuple[KernelCall, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    arena_bytes: int = 0

    @property
    def regions(self) -> tuple[Region, ...]:
        """The distinct regions, in the order of their first call."""
        return tuple({call.region.name: call.region for call in self.calls}.values())

    @property
    def running(self) -> tuple[KernelCall, ...]:
        """The calls that every run makes, in order."""
        return tuple(call for call in self.calls if call.when == "run")

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
        lines = [head, *map(str, self.slots), *map(str, self.calls), f"return {results}"]
        return "\n  ".join(lines) + "\n\n" + "\n\n".join(map(str, self.regions))


def verify(module: Module) -> None:
    """Checks a module and its regions from scratch. Raises EqsatError (MalformedGraph)."""
    slots = {slot.name: slot for slot in module.slots}
    for slot in module.slots:
        _verify_slot(slot)
    _require(0 <= module.arena_bytes < MOST_BYTES, module.name, f"an arena of {module.arena_bytes} bytes")
    _require(len(slots) == len(module.slots), module.name, "two slots have one name")
    for region in {id(call.region): call.region for call in module.calls}.values():
        verify_region(region)
    _require(len({call.name for call in module.calls}) == len(module.calls), module.name, "two calls have one name")
    _require(
        len({call.region.name for call in module.calls}) == len({call.region for call in module.calls}),
        module.name,
        "two regions have one name",
    )
    for name in (*module.inputs, *(held_in for _, held_in in module.outputs)):
        _require(name in slots, name, "no such slot")
    _require(all(slots[name].role == "input" for name in module.inputs), module.name, "an input is not an input slot")
    _verify_flow(module, slots)
    _verify_arena(module)


def _verify_slot(slot: Slot) -> None:
    """Checks a slot alone: sizes and places that memory can have."""
    memref = slot.memref
    _require(memref.dtype in DTYPES, slot.name, f"no dtype {memref.dtype!r}")
    _require(all(size >= 0 for size in memref.shape), slot.name, f"sizes {memref.shape}")
    _require(memref.nbytes < MOST_BYTES, slot.name, f"a tensor of {memref.nbytes} bytes")
    _require(memref.alignment >= 1, slot.name, f"an alignment of {memref.alignment} bytes")
    _require(0 <= slot.first <= slot.last, slot.name, f"lives from call {slot.first} to call {slot.last}")
    _require(slot.offset >= 0, slot.name, f"lies {-slot.offset} bytes before the arena")
    if slot.order is not None:
        fits = sorted(slot.order) == list(range(len(memref.shape)))
        _require(fits, slot.name, f"an order of its axes that is not a permutation: {slot.order}")


def _verify_flow(module: Module, slots: dict[str, Slot]) -> None:
    """Every call reads computed slots, writes slots that no other call writes, and fits its slots."""
    ready = {*module.inputs, *module.constants}
    for position, call in enumerate(module.calls):
        _require(len(call.args) == len(call.region.buffers), call.name, "a call has other arguments")
        for buffer, arg in zip(call.region.buffers, call.args, strict=True):
            wanted = (buffer.memref.shape, buffer.memref.dtype)
            fits = arg in slots and (slots[arg].memref.shape, slots[arg].memref.dtype) == wanted
            _require(fits, arg, f"does not fit {call.name}'s {buffer}")
        for name in call.reads:
            _require(name in ready, name, f"{call.name} reads it before it is computed")
            constant = slots[name].role == "constant"
            _require(constant or call.when == "run", name, f"{call.name} runs once but reads no constant")
        for name in call.writes:
            _require(name not in ready, name, f"{call.name} writes it a second time")
            roles = ("constant",) if call.when == "compile" else ("output", "arena")
            _require(slots[name].role in roles, name, f"{call.name} writes a slot of role {slots[name].role}")
            ready.add(name)
        for name in call.args:
            alive = slots[name].first <= position <= slots[name].last
            _require(alive or slots[name].role != "arena", name, f"is not alive at call {position}")
    for name, slot in module.outputs:
        _require(slot in ready, name, "no call computes this output")


def _verify_arena(module: Module) -> None:
    """Tensors with overlapping live ranges do not overlap in the arena, and all lie inside it."""
    tenants = [slot for slot in module.slots if slot.role == "arena"]
    for index, a in enumerate(tenants):
        end = a.offset + a.memref.nbytes
        _require(end <= module.arena_bytes, a.name, "lies outside the arena")
        _require(a.offset % a.memref.alignment == 0, a.name, "is not aligned in the arena")
        for b in tenants[:index]:
            together = a.first <= b.last and b.first <= a.last
            apart = end <= b.offset or b.offset + b.memref.nbytes <= a.offset
            _require(apart or not together, a.name, f"overlaps {b.name} in the arena")


def _require(holds: bool, at: str, message: str) -> None:
    if not holds:
        fail(Kind.MALFORMED_GRAPH, STAGE, message, at=at)
