"""Buffers whose axes lie in memory in another order: a region over them is a region over buffers of permuted shape.

    x: fp32[1,8,5,5]  read at [i0, r0, i2, i3]      order (0, 2, 3, 1)
    x: fp32[1,5,5,8]  read at [i0, i2, i3, r0]

Buffers of regions are row-major; an order is folded into their shapes, the maps of their reads, and what is yielded
where. So neither the analyses nor the templates know of orders; a region whose first output is permuted has permuted
loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from ir.index.map import AxisMap, compose, identity
from ir.index.moves import permute
from ir.region.region import Buffer, MemRef, Op, Operand, Region, Yield

Order: TypeAlias = tuple[int, ...]
"""The axes of a tensor by their places in memory, the outermost first: (0, 2, 3, 1) stores NCHW as NHWC."""


def inverse(order: Order) -> Order:
    """The place in memory of each axis."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def settled(order: Order, shape: Sequence[int]) -> Order:
    """The order that stores elements alike and leaves the axes of one element where they are."""
    wide = iter([axis for axis in order if shape[axis] != 1])
    return tuple(axis if size == 1 else next(wide) for axis, size in enumerate(shape))


def order_text(order: Order | None) -> str:
    """What stands behind the name or type of a buffer: nothing, or the axes of the tensor in their order."""
    return "" if order is None else f" as {','.join(f'i{axis}' for axis in order)}"


def stored(memref: MemRef, order: Order) -> MemRef:
    """The buffer with its axes in this order."""
    return msgspec.structs.replace(memref, shape=tuple(memref.shape[axis] for axis in order))


def in_orders(region: Region, orders: Mapping[str, Order]) -> Region:
    """The same region over buffers in these orders, by name; those without an entry stay."""
    shapes, first = {each.name: each.memref.shape for each in region.buffers}, region.outputs[0].name

    def buffer(each: Buffer) -> Buffer:
        order = orders.get(each.name)
        return each if order is None else msgspec.structs.replace(each, memref=stored(each.memref, order))

    def read(each: Operand) -> Operand:
        return Operand(each.value, compose(_to_places(shapes[each.value], orders[each.value]), each.map))

    def computed(each: Op) -> Op:
        moved = [isinstance(operand, Operand) and operand.value in orders for operand in each.inputs]
        if not any(moved):
            return each
        operands = (
            read(old) if isinstance(old, Operand) and there else old
            for old, there in zip(each.inputs, moved, strict=True)
        )
        along = each.axis
        if each.kind == "gather" and moved[0] and isinstance(each.inputs[0], Operand) and along is not None:
            along = orders[each.inputs[0].value].index(along)
        return msgspec.structs.replace(each, inputs=tuple(operands), axis=along)

    def written(each: Yield) -> Yield:
        own, points = orders.get(each.buffer), orders.get(first)
        value, at = each.map, each.at or identity(shapes[first])
        if own is not None:
            value = compose(value, permute(shapes[each.buffer], own))
            at = compose(_to_places(shapes[each.buffer], own), at)
        if points is not None:
            at = compose(at, permute(shapes[first], points))
        return Yield(each.value, each.buffer, value, None if at == identity(at.sizes) else at)

    return Region(
        name=region.name,
        inputs=tuple(map(buffer, region.inputs)),
        outputs=tuple(map(buffer, region.outputs)),
        body=tuple(msgspec.structs.replace(let, op=computed(let.op)) for let in region.body),
        yields=tuple(map(written, region.yields)),
    )


def _to_places(shape: Sequence[int], order: Order) -> AxisMap:
    """From the coordinates of a tensor to those of its buffer."""
    return permute([shape[axis] for axis in order], inverse(order))
