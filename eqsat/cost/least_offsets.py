"""A region → the region that reads its inputs as near to their start as alignment allows. Both take the same time by
the same plan.

    region step(X: fp32[16,32,64], …)                     region step(X: fp32[16,32,64], …)
      dot_0 = contraction[16,128|64](X[i0, 5, r0], …)  →    dot_0 = contraction[16,128|64](X[i0, 0, r0], …)

The steps of an unrolled loop, and parts of a projection, differ in such offsets alone.
"""

from __future__ import annotations

import math

import msgspec

from ir.dtype import dtype
from ir.index.expr import interval
from ir.index.map import AxisMap, axis_map
from ir.index.strides import row_major
from ir.region.region import Buffer, Number, Op, Operand, Region

_ALIGNMENT = 128
"""Bytes. Loads at places that differ by a multiple of them are aligned alike: no vector, cache line or row of a GPU's
shared memory is wider."""


def at_least_offsets(region: Region) -> Region:
    """The region with the least constant offsets in the coordinates of its inputs; itself if it has none."""
    offsets = {buffer.name: _offsets(region, buffer) for buffer in region.inputs if buffer.memref.noalias}
    moved = {name: offset for name, offset in offsets.items() if any(offset)}
    if not moved:
        return region

    def move(operand: Operand | Number) -> Operand | Number:
        if isinstance(operand, Number) or operand.value not in moved:
            return operand
        return Operand(operand.value, _nearer(operand.map, moved[operand.value]))

    def move_all(op: Op) -> Op:
        return msgspec.structs.replace(op, inputs=tuple(map(move, op.inputs)))

    body = tuple(msgspec.structs.replace(let, op=move_all(let.op)) for let in region.body)
    return msgspec.structs.replace(region, body=body)


def _offsets(region: Region, buffer: Buffer) -> tuple[int, ...]:
    """By how much all reads of a buffer may move to the start of each axis."""
    inputs = (operand for let in region.body for operand in let.op.inputs)
    maps = [operand.map for operand in inputs if isinstance(operand, Operand) and operand.value == buffer.name]
    reads = [one for one in maps if one.fill is None and not one.is_empty]
    size = dtype(buffer.memref.dtype).bytes
    offsets = []
    for axis, stride in enumerate(row_major(buffer.memref.frame)):
        step = _ALIGNMENT // math.gcd(_ALIGNMENT, stride * size)
        first = min((interval(one.exprs[axis], one.interior)[0] for one in reads), default=0)
        offsets.append(max(0, first) // step * step)
    return tuple(offsets)


def _nearer(read: AxisMap, offsets: tuple[int, ...]) -> AxisMap:
    exprs = [expr.shift(-offset) for expr, offset in zip(read.exprs, offsets, strict=True)]
    return axis_map(read.sizes, exprs, read.guards)
