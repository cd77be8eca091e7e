"""Convolutions and pools. An image without a batch is one of a batch of 1."""

from __future__ import annotations

import math
from collections.abc import Callable

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.tensor import Tensor, full

Sizes = list[int]


def _per_axis(values: Sizes, axes: int) -> Sizes:
    """One number per axis; a single one is that of all axes."""
    return list(values) * axes if len(values) == 1 else list(values)


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
    axes = weight.ndim - 2
    step, around, apart = (_per_axis(values, axes) for values in (stride, padding, dilation))
    image = x if x.ndim == weight.ndim else x.unsqueeze(0)
    wide = None if bias is None else bias.cast(x.dtype)
    if transposed:
        beyond = _per_axis(output_padding, axes)
        result = nn.conv_transpose(image, weight, wide, step, around, beyond, groups, apart)
    else:
        result = nn.conv(image, weight, wide, step, around, apart, groups)
    return result if x.ndim == weight.ndim else result.squeeze(0)


def _batched(x: Tensor, axes: int, pool: Callable[[Tensor], Tensor]) -> Tensor:
    """pool(x) of an image with or without a batch."""
    return pool(x) if x.ndim == axes + 2 else pool(x.unsqueeze(0)).squeeze(0)


def _register_max_pool(axes: int) -> None:
    @aten(f"max_pool{axes}d_with_indices")
    def pool(
        x: Tensor,
        kernel: Sizes,
        stride: Sizes = [],  # noqa: B006 - the schema's default
        padding: Sizes = [0],  # noqa: B006
        dilation: Sizes = [1],  # noqa: B006
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        window = _per_axis(kernel, axes)
        image = x if x.ndim == axes + 2 else x.unsqueeze(0)
        best, places = nn.max_pool(
            image,
            window,
            _per_axis(stride, axes) if stride else None,
            _per_axis(padding, axes),
            _per_axis(dilation, axes),
            ceil_mode,
            return_indices=True,
        )
        return (best, places) if x.ndim == axes + 2 else (best.squeeze(0), places.squeeze(0))

    @aten(f"max_pool{axes}d_with_indices_backward")
    def spread(
        gradient: Tensor,
        x: Tensor,
        kernel: Sizes,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
        places: Tensor,
    ) -> Tensor:
        return add_in_plane(x, gradient, places, axes)


def add_in_plane(x: Tensor, updates: Tensor, places: Tensor, axes: int) -> Tensor:
    """Zeros of the shape of x, with updates added at places in its flattened last axes."""
    lead, plane = x.shape[: x.ndim - axes], math.prod(x.shape[x.ndim - axes :])
    rows = math.prod(lead)
    count = math.prod(updates.shape[updates.ndim - axes :])
    zeros = full((rows, plane), 0, updates.dtype)
    if not updates.size:
        return zeros.reshape(x.shape)
    return zeros.scatter(1, places.reshape(rows, count), updates.reshape(rows, count), "add").reshape(x.shape)


def _register_adaptive(axes: int) -> None:
    @aten(f"_adaptive_avg_pool{axes}d", f"adaptive_avg_pool{axes}d")
    def mean(x: Tensor, places: Sizes) -> Tensor:
        return _batched(x, axes, lambda image: nn.adaptive_avg_pool(image, list(places)))

    @aten(f"adaptive_max_pool{axes}d")
    def greatest(x: Tensor, places: Sizes) -> tuple[Tensor, Tensor]:
        image = x if x.ndim == axes + 2 else x.unsqueeze(0)
        best, indices = nn.adaptive_max_pool(image, list(places), return_indices=True)
        return (best, indices) if x.ndim == axes + 2 else (best.squeeze(0), indices.squeeze(0))


def _register_avg_pool(axes: int) -> None:
    @aten(f"avg_pool{axes}d")
    def pool(
        x: Tensor,
        kernel: Sizes,
        stride: Sizes = [],  # noqa: B006
        padding: Sizes = [0],  # noqa: B006
        ceil_mode: bool = False,
        count_padding: bool = True,
        divisor: int | None = None,
    ) -> Tensor:
        def mean(image: Tensor) -> Tensor:
            step = _per_axis(stride, axes) if stride else None
            around = _per_axis(padding, axes)
            return nn.avg_pool(image, _per_axis(kernel, axes), step, around, ceil_mode, count_padding, divisor)

        return _batched(x.cast(x.dtype.accumulator), axes, mean).cast(x.dtype)


for _axes in (1, 2, 3):
    _register_adaptive(_axes)
    _register_avg_pool(_axes)
for _axes in (2, 3):
    _register_max_pool(_axes)


@aten("im2col")
def _unfold(x: Tensor, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Tensor:
    """The windows of an image as columns."""
    image = x if x.ndim == 4 else x.unsqueeze(0)
    columns = nn.unfold(image, kernel, dilation, padding, stride)
    return columns if x.ndim == 4 else columns.squeeze(0)


@aten("col2im")
def _fold(x: Tensor, sizes: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Tensor:
    """The image whose elements are sums of the columns at their windows."""
    columns = x if x.ndim == 3 else x.unsqueeze(0)
    image = nn.fold(columns, sizes, kernel, dilation, padding, stride)
    return image if x.ndim == 3 else image.squeeze(0)


_GRID_MODES = ("bilinear", "nearest", "bicubic")
_GRID_PADDINGS = ("zeros", "border", "reflection")


@aten("grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    return nn.grid_sample(x, grid, _GRID_MODES[mode], _GRID_PADDINGS[padding], align_corners)
