"""The pass: results that update arguments are written over them, so that nothing is copied.

    y = scatter(x, index, updates)     y updates x, and all other kernels have read x       y is the memory of x

A result that cannot be written over its argument keeps memory of its own, and the runtime copies it there after a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from eqsat.assembly.distinct_regions import DistinctRegions
from eqsat.assembly.place_slots import place_slots
from eqsat.assembly.priced_module import PricedModule
from eqsat.updates import Update
from ir.module.module import KernelCall, Module
from ir.pricer import Price, Pricer
from ir.region.overwrite import may_overwrite
from ir.region.region import Buffer, Region


def update_in_place(module: Module, prices: Sequence[Price], updates: Sequence[Update], pricer: Pricer) -> PricedModule:
    """The module with outputs over inputs, where kernels may write them there. prices: of the running calls."""
    changing = _Changing(module, prices, pricer)
    changed = [changing.overwrite(module.outputs[update.output][1], update.argument) for update in updates]
    return changing.module() if any(changed) else PricedModule(module, tuple(prices), tuple(range(len(prices))))


class _PricedCall(NamedTuple):
    """A running call, its price, and its position before the pass."""

    call: KernelCall
    price: Price
    before: int


class _Changing:
    """A module whose running calls change, and change their order."""

    def __init__(self, module: Module, prices: Sequence[Price], pricer: Pricer) -> None:
        self._module, self._pricer = module, pricer
        self._slots = {slot.name: slot for slot in module.slots}
        self._calls = [
            _PricedCall(call, price, place)
            for place, (call, price) in enumerate(zip(module.running, prices, strict=True))
        ]

    def module(self) -> PricedModule:
        distinct = DistinctRegions()
        once = [call for call in self._module.calls if call.when == "compile"]
        calls = tuple(
            msgspec.structs.replace(call, region=distinct.of(call.region))
            for call in (*once, *(one.call for one in self._calls))
        )
        changed = place_slots(msgspec.structs.replace(self._module, slots=tuple(self._slots.values()), calls=calls))
        return PricedModule(changed, tuple(one.price for one in self._calls), tuple(one.before for one in self._calls))

    def overwrite(self, output: str, under: str) -> bool:
        """Lets the slot of an output lie over that of an input. False, and nothing changes, where that cannot be."""
        writer = self._writer(output) if self._may_lie_over(output, under) else None
        if writer is None:
            return False
        order, region = self._after_other_readers(writer, under), _over(self._calls[writer].call, output, under)
        price = None if order is None or region is None else self._pricer.price(region)
        if order is None or region is None or not isinstance(price, Price):
            return False
        one = self._calls[writer]
        self._calls[writer] = one._replace(call=msgspec.structs.replace(one.call, region=region), price=price)
        self._calls = [self._calls[place] for place in order]
        self._slots[output] = msgspec.structs.replace(self._slots[output], over=under)
        return True

    def _may_lie_over(self, output: str, under: str) -> bool:
        """Whether an output and an input are whole tensors that the caller has once each, in one order of axes."""
        held = [slot for _, slot in self._module.outputs]
        result, argument = self._slots[output], self._slots[under]
        is_free = result.over is None and all(slot.over != under for slot in self._slots.values())
        roles = (result.role, argument.role) == ("output", "input")
        return held.count(output) == 1 and under not in held and is_free and roles and result.order == argument.order

    def _writer(self, output: str) -> int | None:
        """The place of the call that writes an output; None if it is in a loop."""
        (place,) = (place for place, one in enumerate(self._calls) if output in one.call.writes)
        return None if any(loop.first <= place < loop.end for loop in self._module.loops) else place

    def _after_other_readers(self, writer: int, slot: str) -> list[int] | None:
        """An order of the calls in which the writer comes after all other readers of the slot. None if a call in front
        of which it stood reads what it writes, or overwrites what it reads, or if calls of a loop would move."""
        calls = [one.call for one in self._calls]
        last = max(place for place, call in enumerate(calls) if slot in call.reads or place == writer)
        between, written = range(writer + 1, last + 1), set(calls[writer].writes)
        needs_it = any(not written.isdisjoint(calls[place].reads) for place in between)
        overwritten = {self._slots[name].over for place in between for name in calls[place].writes}
        if between and (needs_it or self._module.loops or not overwritten.isdisjoint(calls[writer].reads)):
            return None
        return [*range(writer), *between, writer, *range(last + 1, len(calls))]


def _over(call: KernelCall, output: str, under: str) -> Region | None:
    """The region of a call with the output over the input: if it does not read the input, or reads each element before
    it writes the element."""
    if under not in call.reads:
        return call.region
    if call.reads.count(under) > 1:
        return None
    buffers = dict(zip(call.args, call.region.buffers, strict=True))
    names = {buffers[output].name, buffers[under].name}
    if not may_overwrite(call.region, buffers[output].name, buffers[under].name):
        return None

    def share(buffer: Buffer) -> Buffer:
        shared = msgspec.structs.replace(buffer.memref, noalias=False)
        return msgspec.structs.replace(buffer, memref=shared) if buffer.name in names else buffer

    region = call.region
    inputs, outputs = tuple(map(share, region.inputs)), tuple(map(share, region.outputs))
    return msgspec.structs.replace(region, inputs=inputs, outputs=outputs)
