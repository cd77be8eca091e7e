"""The lifetimes of a module's slots, and their places in the arena."""

from __future__ import annotations

import msgspec

from eqsat.assembly.arena import Interval, pack
from ir.module.module import Module
from ir.module.order import uses


def place_slots(module: Module) -> Module:
    """The module with the lifetimes of its slots, and places in the arena."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for use in uses(module):
        first[use.slot] = min(first.get(use.slot, use.first), use.first)
        last[use.slot] = max(last.get(use.slot, use.last), use.last)
    slots = [
        msgspec.structs.replace(slot, first=first.get(slot.name, 0), last=last.get(slot.name, 0))
        for slot in module.slots
    ]
    arena = [slot for slot in slots if slot.role == "arena"]
    offsets, size = pack([Interval(slot.first, slot.last, slot.memref.nbytes) for slot in arena])
    place = {slot.name: offset for slot, offset in zip(arena, offsets, strict=True)}
    placed = tuple(msgspec.structs.replace(slot, offset=place.get(slot.name, 0)) for slot in slots)
    return msgspec.structs.replace(module, slots=placed, arena_bytes=size)
