"""Pools of regions of an image, and convolutions whose filters read displaced elements: samples at computed places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import reduce
from typing import Literal

from eqsat import tensor
from eqsat.frontends.onnx.operands import malformed, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.nn.sampling import sample_terms
from eqsat.tensor import Tensor, where


def _add(terms: list[Tensor]) -> Tensor:
    return reduce(lambda a, b: a + b, terms)


def _maximum(terms: list[Tensor]) -> Tensor:
    return reduce(lambda a, b: a.maximum(b), terms)


@operator("RoiAlign", since=10)
def _roi_align_by_corners(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    *,
    mode: Literal["avg", "max"] = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    return _pool_regions(x, rois, images, mode, (output_height, output_width), sampling_ratio, spatial_scale, False)


@operator("RoiAlign", since=16)
def _roi_align(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    *,
    coordinate_transformation_mode: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
    mode: Literal["avg", "max"] = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    half = coordinate_transformation_mode == "half_pixel"
    return _pool_regions(x, rois, images, mode, (output_height, output_width), sampling_ratio, spatial_scale, half)


def _pool_regions(
    x: Tensor, rois: Tensor, images: Tensor, mode: str, bins: tuple[int, int], ratio: int, scale: float, half: bool
) -> Tensor:
    """[R, C, *bins]: of each region (x1, y1, x2, y2) of x[image], the mean or the maximum of ratio · ratio samples of
    each bin. The maximum is that of all neighbours times their weights, as ONNX says."""
    if ratio <= 0:
        refuse("a number of samples that depends on the sizes of the regions", hint="sampling_ratio above 0")
    wide = rois.cast(rois.dtype.accumulator)
    places, inside = [], []
    for axis, (count, size) in enumerate(zip(bins, x.shape[2:], strict=True)):
        start = wide[:, 1 - axis] * scale - 0.5 * half
        length = wide[:, 3 - axis] * scale - 0.5 * half - start
        step = (length if half else length.maximum(1.0)) * (1 / count)
        offsets = tensor.iota((count * ratio,), 0, wide.dtype) * (1 / ratio) + 0.5 / ratio
        place = start.reshape(-1, 1) + step.reshape(-1, 1) * offsets  # [R, count * ratio]
        spread = (-1, count * ratio, 1) if axis == 0 else (-1, 1, count * ratio)
        shape = (rois.shape[0], bins[0] * ratio, bins[1] * ratio)
        places.append(place.maximum(0.0).minimum(size - 1.0).reshape(*spread).expand(*shape))
        inside.append(((place >= -1.0) & (place <= float(size))).reshape(*spread).expand(*shape))
    chosen = x.cast(x.dtype.accumulator).take(images, 0)
    pool: Callable[[list[Tensor]], Tensor] = _add if mode == "avg" else _maximum
    samples = pool(sample_terms(chosen, places, "border"))
    known = where((inside[0] & inside[1]).reshape(rois.shape[0], 1, *places[0].shape[1:]), samples, 0.0)
    parts = known.reshape(rois.shape[0], x.shape[1], bins[0], ratio, bins[1], ratio)
    pooled = parts.mean((3, 5)) if mode == "avg" else parts.max((3, 5))
    return pooled.cast(x.dtype)


@operator("DeformConv", since=19)
def _deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """y[n, o, p] = Σ over c, k of weight[o, c, k] · mask[n, k, p] · x[n, c, q], where q = stride · p + dilation · k +
    offset[n, k, p] is a place between elements; 0 outside of the image."""
    spatial, taps = x.ndim - 2, tuple(weight.shape[2:])
    if kernel_shape is not None and tuple(kernel_shape) != taps:
        malformed(f"kernel_shape {kernel_shape} is not that of the filters {list(weight.shape)}")
    out, batch, count = tuple(offset.shape[2:]), x.shape[0], math.prod(taps)
    grid = (batch * offset_group, *taps, *out)
    moved = offset.cast(offset.dtype.accumulator).reshape(batch * offset_group, *taps, spatial, *out)
    places = []
    for axis in range(spatial):
        dilation = dilations[axis] if dilations else 1
        stride = strides[axis] if strides else 1
        first = pads[axis] if pads else 0
        tap = tensor.iota(grid, 1 + axis, moved.dtype) * dilation
        point = tensor.iota(grid, 1 + spatial + axis, moved.dtype) * stride
        own = moved[(slice(None), *itertools.repeat(slice(None), spatial), axis)]
        places.append((tap + point - first + own).reshape(batch * offset_group, count, math.prod(out)))
    images = x.reshape(batch * offset_group, x.shape[1] // offset_group, *x.shape[2:])
    samples = _add(sample_terms(images.cast(x.dtype.accumulator), places, "zeros"))
    if mask is not None:
        samples = samples * mask.reshape(batch * offset_group, 1, count, math.prod(out))
    columns = samples.reshape(batch, group, x.shape[1] // group * count, math.prod(out))
    filters = weight.reshape(1, group, weight.shape[0] // group, weight.shape[1] * count)
    result = (filters @ columns).reshape(batch, weight.shape[0], *out)
    if bias is not None:
        result = result + bias.reshape(1, -1, *itertools.repeat(1, spatial))
    return result.cast(x.dtype)
