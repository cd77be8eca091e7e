"""Contractions whose operands are of narrow dtypes."""

from __future__ import annotations

import msgspec

from ir.region.region import Region
from tests.support.programs import regions


def narrow(region: Region, lhs: str, rhs: str | None = None) -> Region:
    """The region with operands of its contraction in narrow dtypes, and sums as before."""
    let = next(let for let in region.body if let.op.kind == "contraction")
    names = [operand.value for operand in let.op.operands]
    dtypes = dict(zip(names, (lhs, rhs or lhs), strict=True))
    inputs = [
        msgspec.structs.replace(
            buffer, memref=msgspec.structs.replace(buffer.memref, dtype=dtypes.get(buffer.name, buffer.memref.dtype))
        )
        for buffer in region.inputs
    ]
    return msgspec.structs.replace(region, inputs=tuple(inputs))


def with_constant(region: Region, name: str) -> Region:
    """The region whose input of this name is known when the program is built."""
    inputs = (msgspec.structs.replace(buffer, constant=buffer.name == name) for buffer in region.inputs)
    return msgspec.structs.replace(region, inputs=tuple(inputs))


def integer_product(lhs: str, rhs: str, m: int, n: int, k: int) -> Region:
    """A product of 8-bit integers with sums of 32 bits."""
    return narrow(regions.matmul((), m, n, k, dtype="i32"), lhs, rhs)


def integer_convolution() -> Region:
    """A convolution with sums of 32 bits."""
    region = regions.conv(1, 20, 40, (7, 7), 3, 1, 1)
    (let,), (output,) = region.body, region.outputs
    op = msgspec.structs.replace(let.op, dtype="i32")
    memref = msgspec.structs.replace(output.memref, dtype="i32")
    body, outputs = msgspec.structs.replace(let, op=op), msgspec.structs.replace(output, memref=memref)
    return msgspec.structs.replace(region, body=(body,), outputs=(outputs,))
