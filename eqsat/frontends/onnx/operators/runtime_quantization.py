"""The operators of onnxruntime (domain com.microsoft) on quantized tensors, which its quantizer leaves behind.

A quantized tensor comes as three inputs: its integers, their scale, and their zero point, 0 where that is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul

from eqsat import nn, tensor
from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.quantization import (
    centre,
    in_fp32,
    integer_product,
    quantize,
    quantize_by_range,
    rows_of,
)
from eqsat.frontends.onnx.operators.windows import PoolAttributes, average_pool
from eqsat.tensor import Tensor
from ir.dtype import fp32

DOMAIN = "com.microsoft"


class QuantizedPoolAttributes(PoolAttributes, frozen=True):
    """The attributes of a pool whose channels may be its last axis."""

    channels_last: int = 0


def _register_binary(name: str, combine: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Registers an operator on two quantized tensors."""

    @operator(name, domain=DOMAIN)
    def lower(
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None,
        scale: Tensor,
        zero: Tensor | None = None,
    ) -> Tensor:
        return quantize(combine(widen(a, a_scale, a_zero), widen(b, b_scale, b_zero)), scale, zero, a.dtype)


_register_binary("QLinearAdd", add)
_register_binary("QLinearMul", mul)


@operator("QLinearSigmoid", domain=DOMAIN)
def _sigmoid(x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    return quantize(widen(x, x_scale, x_zero).sigmoid(), scale, zero, x.dtype)


@operator("QLinearLeakyRelu", domain=DOMAIN)
def _leaky_relu(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    return quantize(nn.leaky_relu(widen(x, x_scale, x_zero), alpha), scale, zero, x.dtype)


@operator("QLinearSoftmax", domain=DOMAIN)
def _softmax(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor,
    *,
    axis: int = -1,
    opset: int = 13,
) -> Tensor:
    """Before opset 13 the softmax is over all axes from `axis` on."""
    axes = axis if opset >= 13 else tuple(range(axis % x.ndim, x.ndim))
    return quantize(nn.softmax(widen(x, x_scale, x_zero), axes), scale, zero, x.dtype)


@operator("QLinearAveragePool", domain=DOMAIN)
def _average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    attributes: QuantizedPoolAttributes,
) -> Tensor:
    wide = _channels_first(widen(x, x_scale, x_zero), attributes.channels_last)
    pooled = _channels_last(average_pool(wide, attributes), attributes.channels_last)
    return quantize(pooled, scale, zero, x.dtype)


@operator("QLinearGlobalAveragePool", domain=DOMAIN)
def _global_average_pool(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, scale: Tensor, zero: Tensor, *, channels_last: int = 0
) -> Tensor:
    wide = _channels_first(widen(x, x_scale, x_zero), channels_last)
    pooled = wide.mean(tuple(range(2, x.ndim)), keepdims=True)
    return quantize(_channels_last(pooled, channels_last), scale, zero, x.dtype)


@operator("QLinearConcat", domain=DOMAIN)
def _concat(scale: Tensor, zero: Tensor, *parts: Tensor, axis: int) -> Tensor:
    """`parts`: the integers, the scale and the zero point of each tensor in turn."""
    if len(parts) % 3:
        refuse("QLinearConcat of tensors without zero points")
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return tensor.concat([quantize(widen(*triple), scale, zero, zero.dtype) for triple in triples], axis)


@operator("QLinearWhere", domain=DOMAIN)
def _where(
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    chosen = tensor.where(condition, widen(x, x_scale, x_zero), widen(y, y_scale, y_zero))
    return quantize(chosen, scale, zero, zero.dtype)


@operator("QGemm", domain=DOMAIN)
def _gemm(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    zero: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803 - ONNX's name
) -> Tensor:
    """alpha·A·B + C, with C in i32 at the scale of the sums; fp32 if the result has no scale. The scales of B are for
    its columns."""
    left, right = a.permute(1, 0) if transA else a, b.permute(1, 0) if transB else b
    total = centre(left, a_zero) @ centre(right, b_zero)
    total = total if bias is None else total + bias
    result = total.cast(fp32) * (alpha * in_fp32(a_scale)) * in_fp32(b_scale)
    return result if scale is None else quantize(result, scale, zero, a.dtype if zero is None else zero.dtype)


@operator("MatMulIntegerToFloat", domain=DOMAIN)
def integer_product_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The product of a and b without their zero points, times their scales: those of a for its rows, those of b for its
    columns."""
    product = integer_product(a, b, a_zero, b_zero).cast(fp32)
    a_factor = rows_of(a_scale)
    assert a_factor is not None
    result = product * (in_fp32(a_factor) * in_fp32(b_scale))
    return result if bias is None else result + bias


@operator("DynamicQuantizeMatMul", domain=DOMAIN)
def _dynamically_quantized_product(
    a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    integers, a_scale, a_zero = quantize_by_range(a)
    return integer_product_to_float(integers, b, a_scale, b_scale, a_zero, b_zero, bias)


def widen(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """(x - zero point)·scale, fp32."""
    return centre(x, zero).cast(fp32) * in_fp32(scale)


def _channels_first(x: Tensor, channels_last: int) -> Tensor:
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1)) if channels_last else x


def _channels_last(x: Tensor, channels_last: int) -> Tensor:
    return x.permute(0, *range(2, x.ndim), 1) if channels_last else x
