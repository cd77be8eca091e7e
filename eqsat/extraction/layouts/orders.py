"""The orders of its axes in which a buffer may be worth storing: those in which some kernel walks it.

    C[i0, i1] = Σ A[i0, r0]·B[r0, i1]     walks B by rows of terms, (0, 1), or by columns of them, (1, 0)

A kernel that writes its output in one order of loops moves the coordinates of an operand in the order of those loops,
its own terms inside or around them; and an operand in some order suggests an order of loops. So orders spread from
kernel to kernel, from row-major on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from eqsat.extraction.cover import CoverKernel
from ir.index.map import AxisMap, compose, identity, lift
from ir.region.order import Order, settle
from ir.region.region import Region

MOST_ORDERS = 4
"""Per buffer: a kernel is priced at the combinations of those of all that it reads and writes."""
_STILL = -1


class Walk(NamedTuple):
    """An access to buffer number `position` of a region: per coordinate the kernel's axis that moves it, or -1. The
    kernel's axes are those of its first output, then those of terms."""

    position: int
    axes: tuple[int, ...]


def has_orders(shape: Sequence[int]) -> bool:
    """Whether there are elements that another order of the axes would move."""
    return 0 not in shape and sum(size > 1 for size in shape) > 1


def orders_of(
    kernels: Sequence[CoverKernel], shapes: Mapping[int, tuple[int, ...]], walks: Walks
) -> dict[int, tuple[Order, ...]]:
    """The orders of the buffers that may be permuted, whose shapes are given: row-major first, at most
    `MOST_ORDERS`."""
    orders_of_buffer: dict[int, list[Order]] = {buffer: [tuple(range(len(shape)))] for buffer, shape in shapes.items()}
    touching: dict[int, list[int]] = {}
    for place, kernel in enumerate(kernels):
        for buffer in {*kernel.reads, *kernel.writes} & shapes.keys():
            touching.setdefault(buffer, []).append(place)
    waiting = deque(range(len(kernels)))
    while waiting:
        kernel = kernels[waiting.popleft()]
        for buffer, suggested in _suggest(kernel, walks.of(kernel.region), orders_of_buffer):
            known = orders_of_buffer.get(buffer, [])
            if known and len(known) < MOST_ORDERS and (order := settle(suggested, shapes[buffer])) not in known:
                known.append(order)
                waiting.extend(place for place in touching[buffer] if place not in waiting)
    return {buffer: tuple(orders) for buffer, orders in orders_of_buffer.items()}


def _suggest(
    kernel: CoverKernel, walks: Sequence[Walk], orders_of_buffer: Mapping[int, Sequence[Order]]
) -> Iterator[tuple[int, Order]]:
    """What the orders of a kernel's buffers suggest for its others."""
    buffers, first = (*kernel.reads, *kernel.writes), kernel.writes[0]
    rank = len(kernel.region.outputs[0].memref.shape)
    for walk in walks:
        buffer = buffers[walk.position]
        for order in tuple(orders_of_buffer.get(first, [tuple(range(rank))])):
            for terms_last in (True, False):
                yield buffer, order_of_walk(walk, order, terms_last)
        for order in tuple(orders_of_buffer.get(buffer, [tuple(range(len(walk.axes)))])):
            for others_last in (True, False):
                yield first, _loop_order(walk, order, rank, others_last)


def order_of_walk(walk: Walk, order: Order, terms_last: bool) -> Order:
    """The order of a buffer's axes in which loops in this order over the first output move its coordinates."""
    place = {axis: position for position, axis in enumerate(order)}

    def key(coordinate: int) -> tuple[bool, int]:
        axis = walk.axes[coordinate]
        return (axis >= len(order)) == terms_last and axis != _STILL, place.get(axis, axis)

    return tuple(sorted(range(len(walk.axes)), key=key))


def _loop_order(walk: Walk, order: Order, rank: int, others_last: bool) -> Order:
    """The order of loops over the first output that walks a buffer, whose axes lie in this order, as it lies."""
    moved = [walk.axes[axis] for axis in order if 0 <= walk.axes[axis] < rank]
    own = tuple(dict.fromkeys(moved))
    others = tuple(axis for axis in range(rank) if axis not in own)
    return own + others if others_last else others + own


class Walks:
    """The walks of regions, each derived once: repeated blocks share regions."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Region, tuple[Walk, ...]]] = {}

    def of(self, region: Region) -> tuple[Walk, ...]:
        """The region's accesses, each way of walking a buffer once."""
        if id(region) not in self._known:
            walks = tuple(dict.fromkeys(_walks(region)))
            self._known[id(region)] = region, walks  # while the region lives, no other has its id
        return self._known[id(region)][1]


def _walks(region: Region) -> Iterator[Walk]:
    """Backwards from the outputs: where a value is computed, at a point of the first output and of terms, it reads."""
    positions = {buffer.name: position for position, buffer in enumerate(region.buffers)}
    places = [(written, written.at or identity(region.outputs[0].memref.shape)) for written in region.yields]
    yield from (Walk(positions[written.buffer], _movers(place)) for written, place in places)
    at = {written.value: compose(written.map, place) for written, place in places}
    for let in reversed(region.body):
        if let.name not in at:
            continue
        op = let.op
        point = lift(at[let.name], op.domain[len(op.shape) :])
        for operand in op.operands:
            read = compose(operand.map, point)
            if operand.value in positions:
                yield Walk(positions[operand.value], _movers(read))
            else:
                at.setdefault(operand.value, read)


def _movers(view: AxisMap) -> tuple[int, ...]:
    return tuple(min(expr.axes, default=_STILL) for expr in view.exprs)
