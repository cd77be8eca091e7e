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


def image_around(fill: int, cast: bool) -> Region:
    """A convolution of an image of u8, widened by an op (`cast`) or as it is, with `fill` around the image."""
    size, kernel, c_in, c_out = (9, 21), 3, 8, 24
    over = (1, c_out, *size, c_in, kernel, kernel)
    padded = {2: size[0], 3: size[1]}
    image = regions.read("V" if cast else "X", over, "i0", "i4", "i2 + i5 - 1", "i3 + i6 - 1", pad=padded, fill=fill)
    shape = (1, c_in, *size)
    body = [regions.ewise("V", "cast", shape, regions.same("X", shape), dtype="i32")] if cast else []
    product = regions.contraction("C", over, 3, image, regions.read("W", over, "i1", "i4", "i5", "i6"), dtype="i32")
    inputs = [
        regions.buffer("X", shape, "u8"),
        regions.buffer("W", (c_out, c_in, kernel, kernel), "i8", constant=True),
    ]
    return regions.region("image", inputs, [*body, product], (1, c_out, *size), dtype="i32")
