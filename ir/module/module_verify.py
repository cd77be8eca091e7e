"""Checks a module: slots that memory can have, calls that fit their slots, values that live long enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.index.strides import row_major
from ir.module.loop import Copy, Loop, LoopWindow, with_inner
from ir.module.module import MOST_BYTES, STAGE, KernelCall, Module, Placement, Role, Slot, outermost, slots_around
from ir.module.order import uses
from ir.region.overwrite import may_overwrite
from ir.region.region import MemRef
from ir.region.region import verify as verify_region

MOST_TRIPS = 2**40
"""Trips of a loop stay below this, far from integer overflow."""


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
    _require(all(slots[name].role != "window" for _, name in module.outputs), module.name, "a window is an output")
    _verify_boxes(module, slots)
    _verify_calls(module, slots)
    _verify_overwriting(module, slots)
    _verify_loops(module, slots)
    _verify_lives(module, slots)
    _verify_arena(module)


def _verify_slot(slot: Slot) -> None:
    """Checks a slot alone: sizes and places that memory can have."""
    memref = slot.memref
    _require(memref.dtype in DTYPES, slot.name, f"no dtype {memref.dtype!r}")
    _require(all(size >= 0 for size in memref.shape), slot.name, f"sizes {memref.shape}")
    _require(memref.nbytes < MOST_BYTES, slot.name, f"a tensor of {memref.nbytes} bytes")
    fits = len(memref.frame) == len(memref.shape) and all(size >= 0 for size in memref.frame)
    _require(fits, slot.name, f"is no box of a tensor of {memref.frame}")
    _require(memref.alignment >= 1, slot.name, f"an alignment of {memref.alignment} bytes")
    _require(0 <= slot.first <= slot.last, slot.name, f"lives from call {slot.first} to call {slot.last}")
    _require(slot.offset >= 0, slot.name, f"lies {-slot.offset} bytes before the arena")
    if slot.order is not None:
        fits = sorted(slot.order) == list(range(len(memref.shape)))
        _require(fits, slot.name, f"an order of its axes that is not a permutation: {slot.order}")


def _verify_calls(module: Module, slots: Mapping[str, Slot]) -> None:
    """Every call fits its slots, whose roles allow what it does."""
    for call in module.calls:
        _require(len(call.args) == len(call.region.buffers), call.name, "a call has other arguments")
        for buffer, arg in zip(call.region.buffers, call.args, strict=True):
            fits = arg in slots and _layout(slots[arg].memref) == _layout(buffer.memref)
            _require(fits, arg, f"does not fit {call.name}'s {buffer}")
        for name in call.reads:
            constant = slots[name].role == "constant"
            _require(constant or call.when == "run", name, f"{call.name} runs once but reads no constant")
        for name in call.writes:
            roles = ("constant",) if call.when == "compile" else ("output", "arena", "window")
            _require(slots[name].role in roles, name, f"{call.name} writes a slot of role {slots[name].role}")
        around = {outer.name for name in call.writes for outer in slots_around(slots[name], slots)}
        _require(around == {*call.fills}, call.name, f"fills {', '.join(call.fills) or 'no slots'}")


def _verify_overwriting(module: Module, slots: Mapping[str, Slot]) -> None:
    """Outputs that are written over inputs: by a call outside of loops that reads each element before it writes it.
    Later reads of the input are refused by `uses`."""
    looped = {place for loop in module.loops for place in range(loop.first, loop.end)}
    for slot in module.slots:
        if slot.over is None:
            continue
        under = slots.get(slot.over)
        fits = under is not None and slot.order == under.order and _layout(slot.memref) == _layout(under.memref)
        _require(fits, slot.name, f"does not fit over {slot.over!r}")
        _require((slot.role, slots[slot.over].role) == ("output", "input"), slot.name, "is no output over an input")
        several = [other.name for other in module.slots if other.over == slot.over]
        _require(len(several) == 1, slot.over, f"{' and '.join(several)} are written over it")
    for place, call in enumerate(module.running):
        _verify_overwriting_call(call, slots, place in looped)


def _verify_overwriting_call(call: KernelCall, slots: Mapping[str, Slot], is_looped: bool) -> None:
    """A call that reads an input over which it writes an output reads each element before it writes the element."""
    buffers = dict(zip(call.args, call.region.buffers, strict=False))
    shared: set[str] = set()
    for name in call.writes:
        over = slots[name].over
        _require(over is None or not is_looped, name, f"{call.name} writes it over {over} in a loop")
        if over is not None and over in call.reads:
            once = call.reads.count(over) == 1
            fits = once and may_overwrite(call.region, buffers[name].name, buffers[over].name)
            _require(fits, name, f"{call.name} may not write it over {over}")
            shared |= {name, over}
    for name, buffer in buffers.items():
        _require(buffer.memref.noalias or name in shared, name, f"{call.name} takes its memory for shared")
        _require(not buffer.memref.noalias or name not in shared, name, f"{call.name} takes its memory for its own")


def _layout(memref: MemRef) -> tuple[object, ...]:
    return memref.shape, memref.dtype, memref.frame


def _verify_boxes(module: Module, slots: Mapping[str, Slot]) -> None:
    """Slots inside of another one are boxes of that one, side by side, and fill that one."""
    boxes: dict[str, list[tuple[int, int, int]]] = {}
    for slot in module.slots:
        if slot.inside is None:
            _require(slot.memref.box_of is None, slot.name, "is a box, but lies in no other slot")
            continue
        around = [slot.name]
        while (inside := slots[around[-1]].inside) is not None:
            fits = inside.slot in slots and inside.slot not in around
            _require(fits, slot.name, f"lies in {inside.slot!r}, which is no other slot")
            around.append(inside.slot)
        outer = slots[around[1]]
        _require(slot.role == outer.role == "arena", slot.name, "lies in another slot, but not in the arena")
        size = _verify_box(slot, slot.inside, outer)
        boxes.setdefault(outer.name, []).append((slot.inside.axis, slot.inside.first, size))
    for name, several in boxes.items():
        end = 0
        for axis, first, size in sorted(several):
            _require(axis == several[0][0] and first == end, name, "the slots inside do not lie side by side")
            end += size
        _require(end == slots[name].memref.shape[several[0][0]], name, "the slots inside do not fill it")


def _verify_box(slot: Slot, inside: Placement, outer: Slot) -> int:
    """The size of the box along its axis."""
    own, around = slot.memref, outer.memref
    _require(0 <= inside.axis < len(around.shape) and 0 not in around.shape, slot.name, f"is no box of {around}")
    size = math.prod(own.shape) * around.shape[inside.axis] // math.prod(around.shape)
    shape = (*around.shape[: inside.axis], size, *around.shape[inside.axis + 1 :])
    same = own.dtype == around.dtype and _moves(own.shape, own.frame) == _moves(shape, around.frame)
    _require(same and size > 0 <= inside.first, slot.name, f"{own} is no box of {around}")
    return size


def _moves(shape: Sequence[int], frame: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and strides of the axes with several elements."""
    return [(size, step) for size, step in zip(shape, row_major(frame), strict=True) if size != 1]


def _verify_loops(module: Module, slots: Mapping[str, Slot]) -> None:
    """Loops contain each other properly, and their windows lie inside tensors in every trip."""
    loops = list(with_inner(module.loops))
    windows = [window.slot for loop in loops for window in loop.windows]
    _require(len({loop.name for loop in loops}) == len(loops), module.name, "two loops have one name")
    listed = [slot.name for slot in module.slots if slot.role == "window"]
    _require(sorted(windows) == sorted(listed), module.name, "the slots that are windows are not those of its loops")
    _verify_ranges(module.loops, 0, len(module.running))
    for loop in loops:
        for window in loop.windows:
            _verify_window(window, loop.trips, slots)
        for copy in loop.loads:
            _verify_copy(copy, "arena", slots)
        for copy in loop.copies:
            _verify_copy(copy, "window", slots)


def _verify_ranges(loops: Sequence[Loop], first: int, end: int) -> None:
    for loop in loops:
        _require(first <= loop.first <= loop.end <= end, loop.name, f"calls {loop.first} to {loop.end} are not its own")
        _require(1 <= loop.trips < MOST_TRIPS, loop.name, f"{loop.trips} trips")
        _verify_ranges(loop.loops, loop.first, loop.end)
        first = loop.end


def _verify_window(window: LoopWindow, trips: int, slots: Mapping[str, Slot]) -> None:
    own = slots[window.slot]
    _require(len(window.tensors) in (1, 2), window.slot, "a window lies in one slot or two")
    _require(own.order is None, window.slot, "a window that is not row-major")
    for name in window.bases:
        _require(name in slots and name != window.slot, window.slot, f"lies in {name!r}, which is no other slot")
        base = slots[name].memref
        low, high = sorted((window.start, window.start + (trips - 1) * window.step))
        if name == window.initial and name not in window.tensors:
            low = high = 0
        inside = low >= 0 and high + own.memref.nbytes <= base.nbytes
        _require(inside and base.dtype == own.memref.dtype, window.slot, f"leaves {name} in some trip")
        _require(slots[name].order is None, window.slot, f"lies in {name}, which is not row-major")


def _verify_copy(copy: Copy, role: Role, slots: Mapping[str, Slot]) -> None:
    _require(copy.source in slots and copy.target in slots, copy.target, "a copy of no slot")
    source, target = slots[copy.source], slots[copy.target]
    same = source.memref.nbytes == target.memref.nbytes == copy.nbytes and source.memref.dtype == target.memref.dtype
    _require(same and copy.source != copy.target, copy.target, f"a copy of {copy.source} that does not fit")
    _require(target.role == role, copy.target, f"a copy to a slot of role {target.role}")
    _require(source.order is None and target.order is None, copy.source, "a copy of a slot that is not row-major")


def _verify_lives(module: Module, slots: Mapping[str, Slot]) -> None:
    """Every value is written before it is read, once, and alive while it is in use."""
    for use in uses(module):
        slot = slots.get(use.slot)
        if slot is not None and slot.role == "arena":
            for one in (slot, outermost(slot, slots)[0]):
                alive = one.first <= use.first and use.last <= one.last
                _require(alive, one.name, f"is not alive at call {use.first}")


def _verify_arena(module: Module) -> None:
    """Tensors with overlapping live ranges do not overlap in the arena, and all lie inside it."""
    slots = {slot.name: slot for slot in module.slots}
    for slot in module.slots:
        outer, nbytes = outermost(slot, slots)
        _require(slot.offset == outer.offset + nbytes, slot.name, f"does not lie in {outer.name}")
    tenants = [slot for slot in module.slots if slot.role == "arena" and slot.inside is None]
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
