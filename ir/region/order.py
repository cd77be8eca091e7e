"""Buffers whose axes lie in memory in another order: the region then reads buffers of permuted shape.

    x: fp32[1,8,5,5]  read at [i0, r0, i2, i3]      order (0, 2, 3, 1)
    x: fp32[1,5,5,8]  read at [i0, i2, i3, r0]

Buffers of regions are row-major. An order is expressed in their shapes, in the maps of their reads and in the maps of
yields. Neither the analyses nor the templates know of orders. If the first output is permuted, so are the region's
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
    """The place in memory of every axis."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def settle(order: Order, shape: Sequence[int]) -> Order:
    """The order with the same layout that leaves axes of size 1 at their places."""
    wide = iter([axis for axis in order if shape[axis] != 1])
    return tuple(axis if size == 1 else next(wide) for axis, size in enumerate(shape))


def order_text(order: Order | None) -> str:
    """The order as text behind the name or type of a buffer: " as i0,i2,i3,i1"; nothing without an order."""
    return "" if order is None else f" as {','.join(f'i{axis}' for axis in order)}"


def reorder(memref: MemRef, order: Order) -> MemRef:
    """The buffer with its axes in this order."""
    return msgspec.structs.replace(memref, shape=tuple(memref.shape[axis] for axis in order))


def in_orders(region: Region, orders: Mapping[str, Order]) -> Region:
    """The same region over buffers in these orders, by name; buffers without an entry keep theirs."""
    shapes, first = {buffer.name: buffer.memref.shape for buffer in region.buffers}, region.outputs[0].name

    def permute_buffer(buffer: Buffer) -> Buffer:
        order = orders.get(buffer.name)
        return buffer if order is None else msgspec.structs.replace(buffer, memref=reorder(buffer.memref, order))

    def permute_read(read: Operand) -> Operand:
        return Operand(read.value, compose(_to_places(shapes[read.value], orders[read.value]), read.map))

    def permute_op(op: Op) -> Op:
        moved = [isinstance(operand, Operand) and operand.value in orders for operand in op.inputs]
        if not any(moved):
            return op
        operands = (
            permute_read(old) if isinstance(old, Operand) and is_moved else old
            for old, is_moved in zip(op.inputs, moved, strict=True)
        )
        return msgspec.structs.replace(op, inputs=tuple(operands))

    def permute_yield(end: Yield) -> Yield:
        own, points = orders.get(end.buffer), orders.get(first)
        value, at = end.map, end.at or identity(shapes[first])
        if own is not None:
            value = compose(value, permute(shapes[end.buffer], own))
            at = compose(_to_places(shapes[end.buffer], own), at)
        if points is not None:
            at = compose(at, permute(shapes[first], points))
        return Yield(end.value, end.buffer, value, None if at == identity(at.sizes) else at)

    return Region(
        name=region.name,
        inputs=tuple(map(permute_buffer, region.inputs)),
        outputs=tuple(map(permute_buffer, region.outputs)),
        body=tuple(msgspec.structs.replace(let, op=permute_op(let.op)) for let in region.body),
        yields=tuple(map(permute_yield, region.yields)),
    )


def _to_places(shape: Sequence[int], order: Order) -> AxisMap:
    """The map from the coordinates of a tensor to those of its buffer in `order`."""
    return permute([shape[axis] for axis in order], inverse(order))
