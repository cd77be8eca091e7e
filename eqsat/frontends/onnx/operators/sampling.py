"""Resizing, and samples at computed points."""

from __future__ import annotations

from eqsat import nn
from eqsat.frontends.onnx.operands import known_integers, malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.known_value import known_value
from eqsat.tensor import Tensor
from ir.frontend import STAGE


def known_floats(tensor: Tensor | None, what: str) -> list[float] | None:
    """The numbers of a tensor that is known when the program is built; None without the tensor, or if it is empty."""
    if tensor is None or not tensor.size:
        return None
    return [float(number) for number in known_value(tensor, what, STAGE).ravel()]


def _scale_up(x: Tensor, scales: list[float] | None, mode: str) -> Tensor:
    """Resize as it was before opset 11: the element at i is that at i / scale."""
    if scales is None:
        malformed("the scales are missing")
    kind = "linear" if mode in ("linear", "bilinear") else "nearest"
    return nn.resize(
        x, scales=scales, mode=kind, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
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
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    return nn.resize(
        x,
        lengths,
        known_floats(scales, "the list of scales"),
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
