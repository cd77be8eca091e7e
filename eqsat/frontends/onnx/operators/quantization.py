"""Quantized tensors: y = (q - zero point) · scale, with q of 4, 8 or 16 bits."""

from __future__ import annotations

import math

from eqsat import tensor
from eqsat.frontends.onnx.element_types import PACKED_TYPES, PackedType, element_type
from eqsat.frontends.onnx.operands import malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.known_value import is_known, known_value
from eqsat.tensor import Tensor
from ir.dtype import DType, fp32, i32, u8


@operator("QuantizeLinear", since=10)
@operator("QuantizeLinear", domain="com.microsoft")
def _quantize(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    to: DType | PackedType = u8 if zero is None else zero.dtype
    if output_dtype in PACKED_TYPES:
        to = PACKED_TYPES[output_dtype]
    elif output_dtype and zero is None:
        to = element_type(output_dtype)
    factor, offset = (spread(value, x, axis, block_size) for value in (scale, zero))
    assert factor is not None
    return quantize(x, factor, offset, to)


def quantize(x: Tensor, scale: Tensor, zero: Tensor | None, to: DType | PackedType) -> Tensor:
    """x / scale to the nearest integer, half to even, plus the zero point, saturated to `to`. Integers of less than
    8 bits are bytes."""
    whole = (x.cast(fp32) / in_fp32(scale)).round()
    shifted = whole if zero is None else whole + in_fp32(zero)
    return (
        shifted.maximum(float(to.lowest))
        .minimum(float(to.highest))
        .cast(to.dtype if isinstance(to, PackedType) else to)
    )


@operator("DequantizeLinear", since=10)
@operator("DequantizeLinear", domain="com.microsoft")
def _dequantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Tensor:
    factor, offset = (spread(value, x, axis, block_size) for value in (scale, zero))
    assert factor is not None
    to = element_type(output_dtype) if output_dtype else scale.dtype
    return (centre(x, offset).cast(fp32) * in_fp32(factor)).cast(to)


def centre(x: Tensor, zero: Tensor | None) -> Tensor:
    """x - zero point, i32. A zero point of 0, as that of weights often is, is left out."""
    number = None if zero is None else _known_number(zero)
    if zero is None or number == 0:
        return x.cast(i32)
    return x.cast(i32) - (zero.cast(i32) if number is None else int(number))


def _known_number(value: Tensor) -> float | None:
    """The number that a scale or a zero point is everywhere, if that is known: rules see the value of a number."""
    if not is_known(value):
        return None
    numbers = known_value(value, "a scale or a zero point")
    return float(numbers.flat[0]) if numbers.size and (numbers == numbers.flat[0]).all() else None


def in_fp32(scale: Tensor) -> Tensor | float:
    """A scale or a zero point in fp32, as a number where `_known_number` knows it."""
    number = _known_number(scale)
    return scale.cast(fp32) if number is None or not math.isfinite(number) else number


def spread(value: Tensor | None, x: Tensor, axis: int, block_size: int) -> Tensor | None:
    """A scale or zero point, shaped to broadcast with x: one for all, one per slice along `axis`, or one per block.
    The last block may be shorter."""
    if value is None or value.size == 1:
        return value if value is None else value.reshape(())
    place = axis_in(axis, x.shape)
    if not block_size:
        return value.reshape(value.size, *(1,) * (x.ndim - place - 1))
    before, after = x.shape[:place], x.shape[place + 1 :]
    expected = (*before, -(-x.shape[place] // block_size), *after)
    if value.shape != expected:
        malformed(
            f"blocks of {block_size} along axis {place} of {list(x.shape)} need scales {list(expected)}, not "
            f"{list(value.shape)}"
        )
    blocks = value.unsqueeze(place + 1).expand((*expected[: place + 1], block_size, *after))
    whole = blocks.reshape(*before, expected[place] * block_size, *after)
    return whole[(*[slice(None)] * place, slice(x.shape[place]))]


@operator("DynamicQuantizeLinear", since=11)
def quantize_by_range(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """To u8, with a scale and a zero point from the range of x and 0."""
    least, greatest = x.min().minimum(0), x.max().maximum(0)
    scale = (greatest - least) / 255
    safe = tensor.where(scale == 0, 1, scale)
    zero = (-least / safe).round().maximum(0).minimum(255).cast(u8)
    return quantize(x, safe, zero, u8), scale, zero


@operator("MatMulInteger", since=10)
def integer_product(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """The product of the integers without their zero points, i32."""
    return centre(a, rows_of(a_zero)) @ centre(b, b_zero)


def rows_of(value: Tensor | None) -> Tensor | None:
    """A scale or zero point per row, as a column; one for all stays."""
    return value if value is None or value.ndim != 1 or value.size == 1 else value.unsqueeze(-1)


@operator("QLinearMatMul", since=10)
def _quantized_product(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    product = (centre(a, rows_of(a_zero)) @ centre(b, b_zero)).cast(fp32)
    a_factor = rows_of(a_scale)
    assert a_factor is not None
    return quantize(product * a_factor.cast(fp32) * b_scale.cast(fp32), y_scale, y_zero, y_zero.dtype)
