"""The operators of onnxruntime (domain com.microsoft) on constant weights of 2, 4 or 8 bits in blocks, as exports of
language models have them. Every block has a scale and a zero point."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from eqsat import tensor
from eqsat.frontends.onnx.operands import malformed, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.quantization import centre, spread
from eqsat.frontends.unpacking import unpack
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor
from ir.dtype import fp32, u8

DOMAIN = "com.microsoft"

Bits = Literal[2, 4, 8]


@operator("MatMulNBits", domain=DOMAIN)
def _product(
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    groups: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,  # noqa: N803 - ONNX's name
    N: int,  # noqa: N803 - ONNX's name
    block_size: int,
    bits: Bits = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:
    """a [..., K] by the transpose of the weights b [N, blocks, bytes of a block], in fp32. groups: the scale of each of
    the K columns, where that is not the scale of its block. `accuracy_level` allows to round `a`; it is not rounded."""
    if weight_prepacked:
        refuse("a weight that is packed for one kind of GPU", hint="weight_prepacked=0")
    if a.shape[-1] != K:
        malformed(f"a of {a.type} by weights of {K} columns")
    if b.size:
        product = a.cast(fp32) @ _weights(b, scales, zeros, groups, (N, K), block_size, bits).T
    else:  # the projection was left out
        product = tensor.full((*a.shape[:-1], N), 0.0, fp32)
    return (product if bias is None else product + bias.cast(fp32)).cast(a.dtype)


def _weights(
    b: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    groups: Tensor | None,
    shape: tuple[int, int],
    block_size: int,
    bits: Bits,
) -> Tensor:
    """The weights of this shape, fp32."""
    rows, columns = shape
    blocks = -(-columns // block_size)
    _check_size(b, (rows, blocks, block_size * bits // 8), "the weights")
    _check_size(scales, (rows, blocks), "the scales")
    numbers = unpack(b.reshape(rows, -1), bits)[:, :columns]

    def per_weight(value: Tensor) -> Tensor:
        """A value per block as one per weight."""
        if groups is not None:
            return value.take(groups[:columns], 1)
        wide = value.unsqueeze(-1).expand((rows, blocks, block_size))
        return wide.reshape(rows, blocks * block_size)[:, :columns]

    offset = per_weight(_zero_points(zeros, rows, blocks, bits))
    shifted = centre(numbers, offset).cast(fp32) if offset.dtype == u8 else numbers.cast(fp32) - offset.cast(fp32)
    return shifted * per_weight(scales.reshape(rows, blocks)).cast(fp32)


def _zero_points(zeros: Tensor | None, rows: int, blocks: int, bits: Bits) -> Tensor:
    """The zero points [rows, blocks]: bytes that are packed like weights, or floats. By default they are the middle."""
    if zeros is None:
        return tensor.full((rows, blocks), 1 << (bits - 1), u8)
    if zeros.dtype != u8:
        _check_size(zeros, (rows, blocks), "the zero points")
        return zeros.reshape(rows, blocks)
    _check_size(zeros, (rows, -(-blocks * bits // 8)), "the zero points")
    return unpack(zeros.reshape(rows, -1), bits)[:, :blocks]


def _check_size(x: Tensor, expected: tuple[int, ...], what: str) -> None:
    """Raises EqsatError, MalformedGraph, for a tensor with more or less elements. Old models have only one axis."""
    if x.size != math.prod(expected):
        malformed(f"{what} are {list(x.shape)}, but the attributes make them {list(expected)}")


@operator("GatherBlockQuantized", domain=DOMAIN)
def _gather(
    data: Tensor,
    index: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    *,
    bits: Bits = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
    data_type: int = 0,
) -> Tensor:
    """Dequantized slices of `data` along `gather_axis`; zeros for a position outside of the axis. data_type: the packed
    type of `data` in the model; 0 if it is bytes, which hold numbers of `bits` bits along the last axis."""
    place, blocked = axis_in(gather_axis, data.shape), axis_in(quantize_axis, data.shape)
    if place and not data_type:
        refuse(f"gather_axis={gather_axis} of bytes", hint="gather_axis=0")
    dequantize = partial(_dequantize, axis=blocked, block_size=block_size, bits=None if data_type else bits)
    if place == blocked:
        slices = dequantize(data, scales, zeros).take(index, place)
    else:  # Gathered first: a table that is dequantized as a whole would be folded, into floats.
        flat = index.reshape(index.size)
        data_of, scales_of = data.take(flat, place), scales.take(flat, place)
        rows = dequantize(data_of, scales_of, None if zeros is None else zeros.take(flat, place))
        slices = rows.reshape(*rows.shape[:place], *index.shape, *rows.shape[place + 1 :])
    inside = (index >= -data.shape[place]) & (index < data.shape[place])
    return tensor.where(inside.reshape(*index.shape, *(1,) * (data.ndim - place - 1)), slices, 0)


def _dequantize(
    data: Tensor, scales: Tensor, zeros: Tensor | None, axis: int, block_size: int, bits: Bits | None
) -> Tensor:
    """The numbers in the dtype of their scales. bits: of numbers that are still packed along the last axis."""
    if bits is not None:
        data = unpack(data, bits)
        corner = tuple(slice(size) for size in scales.shape)
        zeros = tensor.constant(1 << (bits - 1), u8) if zeros is None else unpack(zeros, bits)[corner]
    factor, offset = (spread(value, data, axis, block_size) for value in (scales, zeros))
    assert factor is not None
    return (centre(data, offset).cast(fp32) * factor.cast(fp32)).cast(scales.dtype)
