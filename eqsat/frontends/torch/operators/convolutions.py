"""Convolutions, transposed convolutions, and their gradients. fp16 and bf16 are multiplied and added in fp32, and the
result is rounded once."""

from __future__ import annotations

from typing import Any

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.tensor import Tensor

Sizes = list[int]


@aten("convolution")
def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Tensor:
    count = x.ndim - 2
    by, around, apart, beyond = (_per_axis(sizes, count) for sizes in (stride, padding, dilation, output_padding))
    image, filters, shift = _wide(x, weight, bias)
    if transposed:
        return nn.conv_transpose(image, filters, shift, by, around, beyond, groups, apart).cast(x.dtype)
    return nn.conv(image, filters, shift, by, around, apart, groups).cast(x.dtype)


@aten("convolution_backward")
def _gradients(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    wanted: list[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of x, weight and bias; None for gradients that are not wanted."""
    element, count = x.dtype, x.ndim - 2
    gradient, x, weight = _wide(gradient, x, weight)
    by, around, apart = (_per_axis(sizes, count) for sizes in (stride, padding, dilation))
    of_x = of_weight = of_bias = None
    if wanted[0] and transposed:
        of_x = nn.conv(gradient, weight, None, by, around, apart, groups)
        of_x = of_x[(slice(None), slice(None), *(slice(0, size) for size in x.shape[2:]))]
    elif wanted[0]:
        reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], apart, strict=True)]
        usual = [
            (size - 1) * s - 2 * p + r for size, s, p, r in zip(gradient.shape[2:], by, around, reach, strict=True)
        ]
        beyond = [have - size for have, size in zip(x.shape[2:], usual, strict=True)]
        of_x = nn.conv_transpose(gradient, weight, None, by, around, beyond, groups, apart)
    if wanted[1]:
        image, filters = (gradient, x) if transposed else (x, gradient)
        of_weight = _weight_gradient(image, filters, weight.shape, by, around, apart, groups)
    if wanted[2]:
        of_bias = gradient.sum((0, *range(2, gradient.ndim)), dtype=gradient.dtype)
    gradients = (of_x, of_weight, of_bias)
    return tuple(value if value is None else value.cast(element) for value in gradients)


def _weight_gradient(
    image: Tensor,
    gradient: Tensor,
    shape: tuple[int, ...],
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    """The gradient of a weight of this shape: the image [N, C, …] correlated with the gradient [N, O, …], with the
    batch as channels. Stride and dilation change places."""
    n, channels, *sizes = image.shape
    split = image.reshape(n, groups, channels // groups, *sizes)
    rows = split.permute(2, 1, 0, *range(3, split.ndim)).reshape(channels // groups, groups * n, *sizes)
    result = nn.conv(rows, gradient.swapaxes(0, 1), None, dilation, padding, stride, groups)
    taps = result[(slice(None), slice(None), *(slice(0, size) for size in shape[2:]))]
    return taps.swapaxes(0, 1)


def _per_axis(sizes: Sizes, count: int) -> Sizes:
    """One number per spatial axis; a list of one number is that of all."""
    return list(sizes) * count if len(sizes) == 1 else list(sizes)


def _wide(*tensors: Any) -> tuple[Any, ...]:
    """The tensors in the dtype of their accumulator; None stays."""
    return tuple(None if tensor is None else tensor.cast(tensor.dtype.accumulator) for tensor in tensors)
