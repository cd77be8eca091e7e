"""Kernels over buffers in chosen orders, with their prices."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from msgspec import structs

from eqsat.extraction.cover import CoverKernel
from eqsat.extraction.in_place import filling_price
from eqsat.extraction.layouts.orders import Walks, has_orders, order_of_walk
from eqsat.extraction.layouts.times import Times
from ir.pricer import Price, Pricer
from ir.region.concatenation import input_boxes
from ir.region.order import Order, in_orders, settle
from ir.region.region import Operand, Region


class PermutedKernel(NamedTuple):
    """A kernel over its buffers as they lie; `constants`: which of its inputs it reads in another order."""

    region: Region
    price: Price | None
    constants: Mapping[int, Order]

    @property
    def time_ns(self) -> float:
        """Infinite where there is no such kernel."""
        return self.price.time_ns if self.price else math.inf

    @property
    def least_ns(self) -> float:
        """The time without what other orders might save: vectors that are filled in part, and what is read again."""
        if self.price is None:
            return math.inf
        parts = self.price.parts
        return min(self.price.time_ns, max(parts.compute, parts.memory) + parts.launch)

    @property
    def roofline_ns(self) -> float:
        """The time at the peak rates of the machine."""
        if self.price is None:
            return math.inf
        parts = self.price.parts
        return min(self.least_ns, max(parts.compute * self.price.work.efficiency, parts.memory) + parts.launch)


class PermutedKernels:
    """Kernels over permuted buffers, each distinct one priced once. `packs`: plans pack the constant operands of
    contractions themselves, as on a CPU, so that the order of these constants does not matter.

    walks: of their regions. times: of kernels over the orders of their buffers, by the id of the region, the places of
    the buffers, and their orders.
    """

    def __init__(self, pricer: Pricer, *, packs: bool) -> None:
        self._pricer, self._packs = pricer, packs
        self.walks = Walks()
        self.times: dict[tuple[object, ...], Times] = {}
        self._known: dict[tuple[object, ...], tuple[Region, PermutedKernel]] = {}
        self._prices: dict[Region, Price | None] = {}

    def __len__(self) -> int:
        """Regions priced."""
        return len(self._prices)

    def price(self, region: Region) -> Price | None:
        """The price of a region; None where it cannot be a kernel."""
        if region not in self._prices:
            price = self._pricer.price(region)
            self._prices[region] = price if isinstance(price, Price) else None
        return self._prices[region]

    def of(self, kernel: CoverKernel, orders: Mapping[int, Order]) -> PermutedKernel:
        """A kernel over buffers of which those in `orders` are permuted, with its constants in the best orders for
        that."""
        if kernel.price is None:
            return PermutedKernel(kernel.region, None, {})
        places = enumerate((*kernel.reads, *kernel.writes))
        given = {
            place: orders[buffer] for place, buffer in places if buffer in orders and not _is_plain(orders[buffer])
        }
        key = id(kernel.region), *given.items()
        if key not in self._known:
            tried = [self._permute(kernel, given, constants) for constants in self._constants(kernel, given)]
            best = min(tried, key=lambda one: one.time_ns)
            self._known[key] = kernel.region, best  # while the region lives, no other has its id
        return self._known[key][1]

    def _permute(
        self, kernel: CoverKernel, given: Mapping[int, Order], constants: Mapping[int, Order]
    ) -> PermutedKernel:
        orders = {**given, **constants}
        if not orders:
            return PermutedKernel(kernel.region, kernel.price, {})
        buffers = kernel.region.buffers
        region = in_orders(kernel.region, {buffers[place].name: order for place, order in orders.items()})
        region = _without_cold_inputs(region, given)
        price = self.price(region)
        if price is not None and kernel.price is not None and kernel.price.is_idle and input_boxes(region):
            price = filling_price(price)
        return PermutedKernel(region, price, constants)

    def _constants(self, kernel: CoverKernel, given: Mapping[int, Order]) -> list[dict[int, Order]]:
        """The orders of constants that may suit the kernel: row-major, and as loops over the first output walk them,
        the terms inside those loops or around."""
        region = kernel.region
        loops = given.get(len(region.inputs), tuple(range(len(region.outputs[0].memref.shape))))
        fixed = _unordered(region, packs=self._packs)
        choices: list[dict[int, Order]] = [{}]
        for terms_last in (True, False):
            orders: dict[int, Order] = {}
            for walk in self.walks.of(region):
                buffer = region.buffers[walk.position]
                if buffer.constant and buffer.name not in fixed and has_orders(buffer.memref.shape):
                    orders.setdefault(
                        walk.position, settle(order_of_walk(walk, loops, terms_last), buffer.memref.shape)
                    )
            moved = {place: order for place, order in orders.items() if not _is_plain(order)}
            if moved not in choices:
                choices.append(moved)
        return choices


def _without_cold_inputs(region: Region, places: Collection[int]) -> Region:
    """The region whose inputs at these places were written just before."""
    inputs = (
        structs.replace(buffer, cold=False) if place in places else buffer for place, buffer in enumerate(region.inputs)
    )
    return structs.replace(region, inputs=tuple(inputs))


def _is_plain(order: Order) -> bool:
    return order == tuple(range(len(order)))


def _unordered(region: Region, *, packs: bool) -> set[str]:
    """The buffers whose order does not matter: operands of contractions, where plans pack these themselves, and
    buffers that data walks."""
    ops, counts = (let.op for let in region.body), {"contraction": 2 if packs else 0, "gather": 1}
    read = (operand for op in ops for operand in op.inputs[: counts.get(op.kind, 0)])
    return {operand.value for operand in read if isinstance(operand, Operand)}
