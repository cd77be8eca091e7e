"""The lifetimes of a module's slots, and their places in the arena."""

from __future__ import annotations

import msgspec

from eqsat.assembly.arena import Interval, pack
from ir.module.module import Module, outermost
from ir.module.order import uses


def place_slots(module: Module) -> Module:
    """The module with the lifetimes of its slots, and places in the arena. A slot in which others lie lives as long as
    they do."""
    by_name = {slot.name: slot for slot in module.slots}
    outer = {slot.name: outermost(slot, by_name) for slot in module.slots}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for use in uses(module):
        for name in {use.slot, outer[use.slot][0].name}:
            first[name] = min(first.get(name, use.first), use.first)
            last[name] = max(last.get(name, use.last), use.last)
    slots = [
        msgspec.structs.replace(slot, first=first.get(slot.name, 0), last=last.get(slot.name, 0))
        for slot in module.slots
    ]
    arena = [slot for slot in slots if slot.role == "arena" and slot.inside is None]
    offsets, size = pack([Interval(slot.first, slot.last, slot.memref.nbytes) for slot in arena])
    start = {slot.name: offset for slot, offset in zip(arena, offsets, strict=True)}
    place = {name: start[around.name] + nbytes for name, (around, nbytes) in outer.items() if around.name in start}
    placed = tuple(msgspec.structs.replace(slot, offset=place.get(slot.name, 0)) for slot in slots)
    return msgspec.structs.replace(module, slots=placed, arena_bytes=size)
