"""Convolutions and pools of [N, C, spatial axes]."""

from __future__ import annotations

from eqsat import nn
from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.windows import Padding, around
from eqsat.tensor import Tensor

Sizes = tuple[int, ...]


def padding_of(auto_pad: str, pads: Sizes | None, rank: int) -> Padding:
    """ONNX's pads, all before and then all after, as (before, after) per axis; or how they follow from the sizes."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return "same_upper" if auto_pad == "SAME_UPPER" else "same_lower"
    if auto_pad not in ("NOTSET", "VALID"):
        refuse(f"auto_pad={auto_pad}")
    if auto_pad == "VALID" or pads is None:
        return ((0, 0),) * rank
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


@operator("Conv")
def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sizes | None = None,
    group: int = 1,
    kernel_shape: Sizes | None = None,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    rank = x.ndim - 2
    if rank != 2:
        refuse(f"a convolution over {rank} axes")
    stride, dilation = strides or (1,) * rank, dilations or (1,) * rank
    padding = around(x, weight.shape[2:], stride, padding_of(auto_pad, pads, rank), dilation).both
    return nn.conv2d(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=group)


@operator("MaxPool")
def _max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sizes | None = None,
    kernel_shape: Sizes,
    pads: Sizes | None = None,
    storage_order: int = 0,
    strides: Sizes | None = None,
) -> Tensor:
    rank = x.ndim - 2
    if rank != 2:
        refuse(f"a pool over {rank} axes")
    stride, dilation = strides or (1,) * rank, dilations or (1,) * rank
    padding = around(x, kernel_shape, stride, padding_of(auto_pad, pads, rank), dilation, bool(ceil_mode))
    return nn.max_pool2d(x, kernel_shape, stride, padding.both, dilation)


@operator("AveragePool")
def _average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sizes | None = None,
    kernel_shape: Sizes,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Tensor:
    """`count_include_pad` counts the pads, but not the elements that `ceil_mode` reads beyond them."""
    rank = x.ndim - 2
    if rank != 2:
        refuse(f"a pool over {rank} axes")
    if dilations is not None and any(each != 1 for each in dilations):
        refuse("a dilated average pool")
    stride = strides or (1,) * rank
    padding = around(x, kernel_shape, stride, padding_of(auto_pad, pads, rank), 1, bool(ceil_mode))
    if not count_include_pad:
        return nn.avg_pool2d(x, kernel_shape, stride, padding.both, count_include_pad=False)
    padded = x.pad([(0, 0), (0, 0), *padding.pads])
    return nn.avg_pool2d(padded, kernel_shape, stride, padding.more, count_include_pad=False)


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
