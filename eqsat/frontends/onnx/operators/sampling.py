"""Resizing, and samples at computed points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat import nn
from eqsat.frontends.onnx.operands import known_integers, malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.known_value import known_value
from eqsat.tensor import Tensor, constant
from ir.frontend import STAGE


def known_floats(tensor: Tensor | None, what: str) -> list[float] | None:
    """The numbers of a tensor that is known when the program is built; None without the tensor, or if it is empty."""
    if tensor is None or not tensor.size:
        return None
    return [float(number) for number in known_value(tensor, what, STAGE).ravel()]


def _scaled_sizes(sizes: Sequence[int], scales: Sequence[float]) -> list[int]:
    """The sizes times the scales, by numbers of fp32, rounded down: 10 · 0.7 is 7, though the fp32 next to 0.7 is less
    than that. torch and onnxruntime give tensors of these sizes."""
    if len(sizes) != len(scales):
        malformed(f"{len(scales)} scales for {len(sizes)} axes")
    return [int(np.float32(size) * np.float32(scale)) for size, scale in zip(sizes, scales, strict=True)]


def _scale_up(x: Tensor, scales: list[float] | None, mode: str) -> Tensor:
    """Resize as it was before opset 11: the element at i is that at i / scale, or, of "nearest", at the whole number
    below; above, where an axis shrinks, as in onnxruntime."""
    if scales is None:
        malformed("the scales are missing")
    kind = "linear" if mode in ("linear", "bilinear") else "nearest"
    lengths = _scaled_sizes(x.shape, scales)
    shrinking = [axis for axis, scale in enumerate(scales) if scale < 1]
    if kind == "nearest" and shrinking:
        fewer, less = [lengths[axis] for axis in shrinking], [scales[axis] for axis in shrinking]
        x = nn.resize(x, fewer, less, shrinking, coordinate_transformation_mode="asymmetric", nearest_mode="ceil")
        scales = [max(scale, 1.0) for scale in scales]
    return nn.resize(
        x, lengths, scales, mode=kind, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ).cast(x.dtype)


@operator("Upsample", since=7)
def _upsample_attribute(x: Tensor, *, scales: list[float], mode: str = "nearest") -> Tensor:
    return _scale_up(x, scales, mode)


@operator("Upsample", since=9)
@operator("Resize", since=10)
def _upsample(x: Tensor, scales: Tensor, *, mode: str = "nearest") -> Tensor:
    return _scale_up(x, known_floats(scales, "the list of scales"), mode)


@operator("Resize", since=11)
def _resize(
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    lengths = None if sizes is None or not sizes.size else known_integers(sizes, "the list of sizes")
    factors = known_floats(scales, "the list of scales")
    if factors is not None and lengths is None:
        lengths = _scaled_sizes([x.shape[axis] for axis in (range(x.ndim) if axes is None else axes)], factors)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    return nn.resize(
        x,
        lengths,
        factors,
        axes,
        mode,
        coordinate_transformation_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=bool(exclude_outside),
        antialias=bool(antialias),
        roi=known_floats(roi, "the region of interest") if crops else None,
        extrapolation_value=extrapolation_value,
        keep_aspect_ratio_policy=keep_aspect_ratio_policy,
    ).cast(x.dtype)


@operator("GridSample", since=16)
def _grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    return nn.grid_sample(x, grid, mode, padding_mode, bool(align_corners)).cast(x.dtype)


@operator("AffineGrid", since=20)
def _affine_grid(theta: Tensor, size: Tensor, *, align_corners: int = 0) -> Tensor:
    """Points [N, …, axes] of a grid over an image of `size`, moved by theta [N, axes, axes + 1]: the last axis of the
    image is the first coordinate."""
    batch, _, *image = known_integers(size, "the size of the image")
    along = np.meshgrid(*(_coordinates(length, bool(align_corners)) for length in image), indexing="ij")
    points = np.stack([*reversed(along), np.ones(image)], -1).reshape(-1, len(image) + 1)
    grid = constant(points.astype(theta.dtype.numpy)) @ theta.swapaxes(1, 2)
    return grid.reshape(batch, *image, len(image))


def _coordinates(length: int, aligned: bool) -> np.ndarray:
    """The coordinates of the elements of an axis from -1 to 1: their centres, or, if `aligned`, from -1 of the first
    element to 1 of the last."""
    if aligned:
        return np.linspace(-1, 1, length)
    return (2 * np.arange(length) + 1) / length - 1
