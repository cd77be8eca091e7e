"""The pass: kernels write the parts of a concatenation into their places, so that no kernel has to copy them.

    x = dot(…)    y = dot_2(…)    whole = concatenate(x, y)       three kernels
    x, y inside of whole                                          two kernels, one tensor in memory

A part may be a concatenation itself. Some parts cannot move: what the caller gives or gets, what is known when the
program is built, what a loop carries, and what is already a part of another concatenation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from eqsat.assembly.distinct_regions import DistinctRegions
from eqsat.assembly.place_slots import place_slots
from eqsat.assembly.priced_module import PricedModule
from ir.index.strides import row_major
from ir.module.loop import Loop, slots_of_loops, with_inner
from ir.module.module import KernelCall, Module, Placement, Slot, slots_around
from ir.pricer import Price, Pricer
from ir.region.concatenation import InputBox, frame_of_box, input_boxes
from ir.region.region import Buffer, MemRef, Region


def concatenate_in_place(module: Module, prices: Sequence[Price], pricer: Pricer) -> PricedModule:
    """The module with concatenations filled in place by other kernels, where this takes less time than the copies.

    Args:
        prices: of the running calls. An idle price marks a concatenation that may be filled in place. If it is not, the
            result holds the price of the kernel that copies.
    """
    real = (
        _price(call.region, pricer) if price.is_idle else price
        for call, price in zip(module.running, prices, strict=True)
    )
    filled = PricedModule(module, tuple(real), tuple(range(len(prices))))
    for tree in _trees(module, prices):
        filled = _fill(filled, tree, pricer)
    return filled


class _Concatenation(NamedTuple):
    """A call that only puts its inputs side by side, and the boxes that they fill."""

    call: KernelCall
    boxes: tuple[InputBox, ...]

    @property
    def whole(self) -> str:
        return self.call.writes[0]

    def parts(self) -> Iterator[tuple[str, InputBox]]:
        """The slots of the parts, with their boxes."""
        return ((self.call.reads[box.input], box) for box in self.boxes)


def _trees(module: Module, prices: Sequence[Price]) -> list[list[_Concatenation]]:
    """The concatenations whose parts can all move; those that lie inside of one another together, each after those
    inside of it."""
    outer: dict[str, _Concatenation] = {}
    chosen = []
    for one in _movable(module, prices):
        if outer.keys().isdisjoint(one.call.reads):
            chosen.append(one)
            outer |= dict.fromkeys(one.call.reads, one)
    trees: dict[str, list[_Concatenation]] = {}
    for one in chosen:
        root = one
        while root.whole in outer:
            root = outer[root.whole]
        trees.setdefault(root.whole, []).append(one)
    return list(trees.values())


def _movable(module: Module, prices: Sequence[Price]) -> Iterator[_Concatenation]:
    """The concatenations of arena slots that calls write; all of these calls in the same loop, or outside of loops."""
    loop_of = {place: loop.name for loop in with_inner(module.loops) for place in range(loop.first, loop.end)}
    carried = set(slots_of_loops(module.loops))
    arena = {slot.name for slot in module.slots if slot.role == "arena"} - carried
    home = {slot: loop_of.get(place) for place, call in enumerate(module.running) for slot in call.writes}
    for place, (call, price) in enumerate(zip(module.running, prices, strict=True)):
        slots = [*call.reads, *call.writes]
        movable = price.is_idle and all(slot in arena and home.get(slot, "") == loop_of.get(place) for slot in slots)
        boxes = input_boxes(call.region) if movable and len(set(slots)) == len(slots) else None
        if boxes is not None:
            yield _Concatenation(call, boxes)


def _price(region: Region, pricer: Pricer) -> Price:
    price = pricer.price(region)
    assert isinstance(price, Price), f"{region.name} was a kernel before"
    return price


def _fill(before: PricedModule, tree: Sequence[_Concatenation], pricer: Pricer) -> PricedModule:
    """The module with the concatenations of a tree filled in place, if that is faster."""
    module, gone = before.module, {one.call.name for one in tree}
    slots = {slot.name: slot for slot in module.slots}
    for one in reversed(tree):
        slots |= {name: _inside(slots[name], slots[one.whole], box) for name, box in one.parts()}
    moved = {name: slot.memref for name, slot in slots.items() if slot.inside is not None}
    regions = {call.name: _over(call, moved) for call in module.running if call.name not in gone}
    price_of = dict(zip((call.name for call in module.running), before.prices, strict=True))
    change_ns = -sum(price_of[name].time_ns for name in gone)
    for call in module.running:
        if call.name in regions and regions[call.name] != call.region:
            price = pricer.price(regions[call.name])
            if not isinstance(price, Price):
                return before
            change_ns += price.time_ns - price_of[call.name].time_ns
            price_of[call.name] = price
    if change_ns >= 0:
        return before
    kept = [place for place, call in enumerate(module.running) if call.name not in gone]
    distinct = DistinctRegions()
    calls = tuple(
        msgspec.structs.replace(
            call, region=distinct.of(regions.get(call.name, call.region)), fills=_filled_by(call, slots)
        )
        for call in module.calls
        if call.name not in gone
    )
    loops = tuple(_shift(loop, kept) for loop in module.loops)
    filled = place_slots(msgspec.structs.replace(module, slots=tuple(slots.values()), calls=calls, loops=loops))
    prices = tuple(price_of[call.name] for call in filled.running)
    return PricedModule(filled, prices, tuple(before.kept[place] for place in kept))


def _inside(part: Slot, whole: Slot, box: InputBox) -> Slot:
    """The slot of a part inside the slot of the whole."""
    frame = frame_of_box(box.axes, whole.memref.frame)
    has_gaps = row_major(frame) != row_major(part.memref.shape)
    memref = msgspec.structs.replace(part.memref, box_of=frame if has_gaps else None)
    return msgspec.structs.replace(part, memref=memref, inside=Placement(whole.name, box.axis, box.first))


def _over(call: KernelCall, memrefs: Mapping[str, MemRef]) -> Region:
    """The region of a call over buffers that lie elsewhere, by slot."""
    if memrefs.keys().isdisjoint(call.args):
        return call.region
    region, args = call.region, iter(call.args)

    def move(buffer: Buffer) -> Buffer:
        return msgspec.structs.replace(buffer, memref=memrefs.get(next(args), buffer.memref))

    inputs = tuple(map(move, region.inputs))
    return msgspec.structs.replace(region, inputs=inputs, outputs=tuple(map(move, region.outputs)))


def _filled_by(call: KernelCall, slots: Mapping[str, Slot]) -> tuple[str, ...]:
    """The slots of which a call fills a part."""
    return tuple(dict.fromkeys(outer.name for name in call.writes for outer in slots_around(slots[name], slots)))


def _shift(loop: Loop, kept: Sequence[int]) -> Loop:
    """A loop after calls that are left out. kept: the positions before of the running calls that are left."""
    first, end = bisect_left(kept, loop.first), bisect_left(kept, loop.end)
    return msgspec.structs.replace(loop, first=first, end=end, loops=tuple(_shift(one, kept) for one in loop.loops))
