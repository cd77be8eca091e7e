"""Convolutions and pools of [N, C, spatial axes]."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from eqsat import nn, tensor
from eqsat.frontends.onnx.operands import known_integers, malformed, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.named_activations import activations_by_name
from eqsat.frontends.onnx.operators.quantization import centre, quantize
from eqsat.tensor import Tensor
from ir.dtype import fp32

Sizes = tuple[int, ...]


class ConvAttributes(msgspec.Struct, frozen=True):
    """The attributes of convolutions."""

    auto_pad: str = "NOTSET"
    dilations: Sizes | None = None
    group: int = 1
    kernel_shape: Sizes | None = None
    pads: Sizes | None = None
    strides: Sizes | None = None


class PoolAttributes(msgspec.Struct, frozen=True):
    """The attributes of pools."""

    kernel_shape: Sizes
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    count_include_pad: int = 0
    dilations: Sizes | None = None
    p: int = 2
    pads: Sizes | None = None
    storage_order: int = 0
    strides: Sizes | None = None


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, attributes: ConvAttributes) -> Tensor:
    """The convolution of x [N, C, …] with these attributes."""
    padding = padding_of(attributes.auto_pad, attributes.pads, x.ndim - 2)
    strides, dilations = attributes.strides or 1, attributes.dilations or 1
    return nn.conv(x, weight, bias, strides, padding, dilations, attributes.group)


def padding_of(auto_pad: str, pads: Sizes | None, rank: int) -> nn.Padding:
    """ONNX's pads, all before and then all after, as (before, after) per axis; or how they follow from the sizes."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        return auto_pad.lower()  # type: ignore[return-value]
    if auto_pad != "NOTSET":
        refuse(f"auto_pad={auto_pad}")
    given = pads or (0,) * (2 * rank)
    return list(zip(given[:rank], given[rank:], strict=True))


@operator("Conv")
def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    attributes: ConvAttributes,
) -> Tensor:
    return convolve(x, weight, bias, attributes)


class FusedConvAttributes(ConvAttributes, frozen=True):
    """The attributes of a convolution with an activation."""

    activation: str = ""
    activation_params: list[float] | None = None


@operator("FusedConv", domain="com.microsoft")
def _fused_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    more: Tensor | None = None,
    *,
    attributes: FusedConvAttributes,
) -> Tensor:
    """The activation of a convolution plus `more`, as onnxruntime saves optimized models."""
    total = convolve(x, weight, bias, attributes)
    total = total if more is None else total + more
    name, numbers = attributes.activation, attributes.activation_params or []
    if not name:
        return total
    if name == "Clip":
        if len(numbers) != 2:
            malformed("Clip without two activation_params", "the least and the greatest number")
        return total.maximum(numbers[0]).minimum(numbers[1])
    (activation,) = activations_by_name([name], numbers[:1], numbers[1:])
    return activation(total)


@operator("CausalConvWithState", since=27)
def _causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past: Tensor | None = None,
    *,
    activation: Literal["none", "silu", "swish"] = "none",
) -> tuple[Tensor, Tensor]:
    """A convolution of each channel with its past: the last elements of the sequence before, else 0. Returns the result
    and the last elements of this sequence."""
    length = weight.shape[2] - 1
    before = tensor.full((*x.shape[:2], length), 0, x.dtype.name) if past is None else past
    whole = tensor.concatenate([before, x], 2)
    result = nn.conv(whole, weight, bias, groups=x.shape[1])
    if activation != "none":
        result = nn.silu(result.cast(fp32)).cast(x.dtype)
    return result, whole[:, :, whole.shape[2] - length :]


@operator("ConvInteger", since=10)
def _integer_conv(
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    *,
    attributes: ConvAttributes,
) -> Tensor:
    return convolve(centre(x, x_zero), centre(weight, _per_filter(weight_zero, weight)), None, attributes)


@operator("QLinearConv", since=10)
def _quantized_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    *,
    attributes: ConvAttributes,
) -> Tensor:
    total = convolve(centre(x, x_zero), centre(weight, _per_filter(weight_zero, weight)), bias, attributes)
    scale = x_scale.cast(fp32) * weight_scale.cast(fp32)
    per_channel = scale if scale.size == 1 else scale.reshape(scale.size, *(1,) * (x.ndim - 2))
    return quantize(total.cast(fp32) * per_channel, y_scale, y_zero, y_zero.dtype)


def _per_filter(zero: Tensor | None, weight: Tensor) -> Tensor | None:
    """A zero point per output channel, shaped to broadcast with the weight; one for all stays."""
    return zero if zero is None or zero.size == 1 else zero.reshape(zero.size, *(1,) * (weight.ndim - 1))


@operator("ConvTranspose")
def _conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sizes | None = None,
    group: int = 1,
    kernel_shape: Sizes | None = None,
    output_padding: Sizes | None = None,
    output_shape: Sizes | None = None,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """With `output_shape` or an automatic padding, what is beyond that size is cut away before and after."""
    rank = x.ndim - 2
    stride, dilation = strides or (1,) * rank, dilations or (1,) * rank
    more = output_padding or (0,) * rank
    padding = padding_of(auto_pad, pads, rank)
    wanted = output_shape[-rank:] if output_shape else None
    if wanted is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(size * by for size, by in zip(x.shape[2:], stride, strict=True))
    if wanted is not None:
        reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
        whole = [(n - 1) * s + r + m for n, s, r, m in zip(x.shape[2:], stride, reach, more, strict=True)]
        excess = [have - want for have, want in zip(whole, wanted, strict=True)]
        more = tuple(m + max(-e, 0) for m, e in zip(more, excess, strict=True))
        padding = [_halves(max(e, 0), auto_pad == "SAME_UPPER") for e in excess]
    padding = 0 if padding == "valid" else padding
    return nn.conv_transpose(x, weight, bias, stride, padding, more, group, dilation)


def _halves(total: int, upper: bool) -> tuple[int, int]:
    """The padding before and after; an odd element stands after, if `upper`."""
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


@operator("MaxPool")
def _max_pool(x: Tensor, *, attributes: PoolAttributes, results: int) -> tuple[Tensor, ...]:
    """The maxima, and their places in the flattened tensor: in column-major order of each plane, if `storage_order`."""
    rank = x.ndim - 2
    padding = padding_of(attributes.auto_pad, attributes.pads, rank)
    strides, dilations = attributes.strides or 1, attributes.dilations or 1
    arguments = (x, attributes.kernel_shape, strides, padding, dilations, bool(attributes.ceil_mode))
    if results == 1:
        return (nn.max_pool(*arguments),)
    pooled = nn.max_pool(*arguments, return_indices=True)
    assert isinstance(pooled, tuple)
    best, places = pooled
    planes = tensor.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * rank)
    if attributes.storage_order:
        places = _column_major(places, x.shape[2:])
    return best, places + planes * math.prod(x.shape[2:])


def _column_major(places: Tensor, sizes: Sizes) -> Tensor:
    """The places in column-major order, of places in row-major order."""
    total, rest, step = tensor.constant(0, "i64"), places, math.prod(sizes)
    for size in reversed(sizes):
        step //= size
        total, rest = total + rest % size * step, rest // size
    return total


@operator("MaxUnpool", since=9)
def _max_unpool(
    x: Tensor,
    places: Tensor,
    shape: Tensor | None = None,
    *,
    kernel_shape: Sizes,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """Zeros, and the elements of x at their places in the flattened result; a greater shape has more zeros after it."""
    rank = x.ndim - 2
    stride, around = strides or (1,) * rank, pads or (0,) * (2 * rank)
    usual = [
        (size - 1) * by + kernel - around[axis] - around[axis + rank]
        for axis, (size, by, kernel) in enumerate(zip(x.shape[2:], stride, kernel_shape, strict=True))
    ]
    inner = (*x.shape[:2], *usual)
    unpooled = tensor.full((math.prod(inner),), 0, x.dtype).scatter(0, places.flatten(), x.flatten())
    wanted = inner if shape is None else known_integers(shape, "the shape of the result")
    return unpooled.reshape(inner).pad([(0, want - have) for want, have in zip(wanted, inner, strict=True)])


@operator("AveragePool")
def _average_pool(x: Tensor, *, attributes: PoolAttributes) -> Tensor:
    return average_pool(x, attributes)


def average_pool(x: Tensor, attributes: PoolAttributes) -> Tensor:
    """`count_include_pad` counts the pads, but not the elements that `ceil_mode` reads beyond them."""
    padding = padding_of(attributes.auto_pad, attributes.pads, x.ndim - 2)
    return nn.avg_pool(
        x,
        attributes.kernel_shape,
        attributes.strides or 1,
        padding,
        bool(attributes.ceil_mode),
        bool(attributes.count_include_pad),
        dilation=attributes.dilations or 1,
    )


@operator("LpPool", since=2)
def _lp_pool(x: Tensor, *, attributes: PoolAttributes) -> Tensor:
    padding = padding_of(attributes.auto_pad, attributes.pads, x.ndim - 2)
    strides, dilations = attributes.strides or 1, attributes.dilations or 1
    kernel, ceil_mode = attributes.kernel_shape, bool(attributes.ceil_mode)
    return nn.lp_pool(x, attributes.p, kernel, strides, ceil_mode, padding, dilations)


@operator("GlobalAveragePool")
def _global_average_pool(x: Tensor) -> Tensor:
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def _global_max_pool(x: Tensor) -> Tensor:
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalLpPool", since=2)
def _global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    total = (abs(x) ** float(p)).sum(tuple(range(2, x.ndim)), keepdims=True)
    return total ** (1 / p)


@operator("Col2Im", since=18)
def _fold(
    x: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    *,
    dilations: Sizes | None = None,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """The image [N, C, …] whose elements are sums of the columns x [N, C · elements of a block, blocks]."""
    sizes, kernel = known_integers(image_shape, "the shape of the image"), known_integers(block_shape, "the block")
    padding = padding_of("NOTSET", pads, len(sizes))
    return nn.fold(x, sizes, kernel, dilations or (1,) * len(sizes), padding, strides or (1,) * len(sizes))
