"""Resizing of any axes, as ONNX Resize-19 and torch's interpolate define it.

An axis at a time: an element of the result is a sum of neighbours times weights, which are constants. The neighbours
are read by an index expression where one gives their places, else by a constant index tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.lazy.argument_checks import STAGE, axis_in, flag, integer, integers, number, one_of
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.adaptive_pools import adaptive_avg_pool
from eqsat.nn.known_positions import elements_at, read_rows
from eqsat.nn.operands import floats_of, image_of
from eqsat.nn.resize_rows import ResizedAxis, Sampling, nearest_rows_of_torch, resize_rows
from eqsat.tensor import Tensor, as_tensor, constant, where
from ir.diagnostics import Kind, fail
from ir.dtype import fp64

_POLICIES = ("stretch", "not_larger", "not_smaller")
_MOST_TERMS = 4
"""A row of up to this many neighbours is written out as a sum, a longer one is a reduction."""


def resize(
    x: Tensor,
    sizes: Sequence[int] | None = None,
    scales: Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    mode: str = "nearest",
    *,
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    roi: Sequence[float] | None = None,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
) -> Tensor:
    """x with other sizes along `axes` (None: all axes). The arguments are those of ONNX Resize-19.

    sizes, scales: per axis the size of the result, or result elements per element of x; the size is then rounded down.
        With both, the scales place the coordinates.
    mode: "nearest", which keeps the dtype, or "linear" or "cubic", which give floats (integers and bools become fp64).
    coordinate_transformation_mode: ONNX's names, with "tf_half_pixel_for_nn" of Resize-11.
    roi: for tf_crop_and_resize, the starts and then the ends along `axes`, as fractions of x. Elements outside x are
        `extrapolation_value`.

    Raises:
        EqsatError: MalformedGraph for names and numbers that mean nothing, AxisSizeMismatch for an empty axis.
    """
    x = as_tensor(x)
    along = range(x.ndim) if axes is None else axes if isinstance(axes, range) else integers(axes, "axes")
    places = tuple(axis_in(axis, x.shape) for axis in along)
    lengths, factors = _lengths(x, places, sizes, scales, one_of(keep_aspect_ratio_policy, _POLICIES, "policy"))
    parts = _parts(roi, len(places))
    sampling = Sampling(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        number(cubic_coeff_a, "cubic_coeff_a"),
        flag(exclude_outside, "exclude_outside"),
        flag(antialias, "antialias"),
    )
    result = x if mode == "nearest" else floats_of(x)
    element = result.dtype
    result = result if mode == "nearest" else result.cast(element.accumulator)
    outside: list[Tensor] = []
    for axis, length, factor, part in zip(places, lengths, factors, parts, strict=True):
        rows = resize_rows(x.shape[axis], length, factor, part, sampling)
        result = _resize_axis(result, axis, rows)
        if rows.outside.any():
            outside.append(constant(rows.outside).reshape(length, *(1,) * (x.ndim - axis - 1)))
    for mask in outside:
        result = where(mask, number(extrapolation_value, "extrapolation_value"), result)
    return result.cast(element)


@takes_torchs_names
def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """torch's interpolate of x [N, C, …]: the modes nearest, nearest-exact, linear, bilinear, trilinear, bicubic and
    area."""
    x = image_of(x, "interpolate")
    count = x.ndim - 2
    known = {"nearest": 0, "nearest-exact": 0, "area": 0, "linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
    if known[one_of(mode, tuple(known), "mode")] not in (0, count):
        fail(Kind.UNSUPPORTED_OP, STAGE, f"mode={mode!r} of {count} spatial axes", op="interpolate", shape=x.shape)
    if (size is None) == (scale_factor is None):
        fail(Kind.MALFORMED_GRAPH, STAGE, "pass size or scale_factor", op="interpolate", hint="one of them")
    scales = None if scale_factor is None else _spread(scale_factor, count)
    if size is not None:
        sizes = _spread(size, count)
    else:
        sizes = [math.floor(have * factor) for have, factor in zip(x.shape[2:], scales or (), strict=True)]
    if mode == "area":
        return adaptive_avg_pool(x, sizes)
    given = None if recompute_scale_factor else scales
    return resize_as_torch(x, sizes, given, mode, bool(align_corners), flag(antialias, "antialias"))


def resize_as_torch(
    x: Tensor, sizes: Sequence[int], scales: Sequence[float] | None, mode: str, align_corners: bool, antialias: bool
) -> Tensor:
    """x [N, C, …] with other sizes, by torch's mode. The scales place the coordinates, unless corners are aligned."""
    if mode in ("nearest", "nearest-exact"):
        return _nearest_as_torch(x, sizes, scales, mode == "nearest-exact")
    centred = "align_corners" if align_corners and not antialias else "half_pixel"
    options: dict[str, Any] = {
        "coordinate_transformation_mode": centred,
        "antialias": antialias,
        "exclude_outside": antialias,
    }
    if antialias:
        options["cubic_coeff_a"] = -0.5
    if align_corners:
        scales = None
    if align_corners and antialias:  # torch keeps only the distance of the coordinates
        scales = [_step_between_corners(small, large) for small, large in zip(x.shape[2:], sizes, strict=True)]
    return resize(x, sizes, scales, range(2, x.ndim), "cubic" if mode == "bicubic" else "linear", **options)


def _nearest_as_torch(x: Tensor, sizes: Sequence[int], scales: Sequence[float] | None, exact: bool) -> Tensor:
    axes = tuple(range(2, x.ndim))
    precision = np.float64 if x.dtype == fp64 else np.float32
    for axis, length, scale in zip(axes, *_lengths(x, axes, sizes, scales, "stretch"), strict=True):
        x = _resize_axis(x, axis, nearest_rows_of_torch(x.shape[axis], length, scale, exact, precision))
    return x


def _step_between_corners(size: int, length: int) -> float:
    """Result elements per element of an axis, if the first and the last ones lie on one another; a large number if all
    of the result lies on the first element."""
    return (length - 1) / (size - 1) if size > 1 and length > 1 else float(1 << 30)


def _spread(value: Any, count: int) -> Any:
    """The value per spatial axis; a single one is that of all."""
    given = list(value) if isinstance(value, list | tuple) else [value] * count
    if len(given) != count:
        message = f"{len(given)} sizes or scales for {count} spatial axes"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op="interpolate", hint=f"{count} of them, or one for all axes")
    return given


def _lengths(
    x: Tensor,
    axes: tuple[int, ...],
    sizes: Sequence[int] | None,
    scales: Sequence[float] | None,
    policy: str,
) -> tuple[list[int], list[float]]:
    """Per axis the size of the result, and result elements per element of x."""
    listed = [numbers for numbers in (sizes, scales) if numbers is not None]
    given = [len(numbers) if isinstance(numbers, list | tuple) else -1 for numbers in listed]
    if not given or set(given) != {len(axes)} or len(set(axes)) != len(axes):
        message = f"sizes or scales for the axes {list(axes)} are wanted"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op="resize", hint="one number per axis", shape=x.shape)
    have = [x.shape[axis] for axis in axes]
    factors = [number(scale, "a scale") for scale in scales] if scales is not None else []
    lengths = (
        [integer(size, "a size") for size in sizes]
        if sizes is not None
        else [math.floor(size * factor) for size, factor in zip(have, factors, strict=True)]
    )
    if min([*lengths, 0]) < 0 or any(not size and length for size, length in zip(have, lengths, strict=True)):
        message = f"no resize of the sizes {have} to {lengths}"
        fail(Kind.AXIS_SIZE_MISMATCH, STAGE, message, op="resize", hint="an empty axis stays empty", shape=x.shape)
    if not all(factor > 0 for factor in factors):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"the scales are {factors}", op="resize", hint="numbers above 0")
    if factors:
        return lengths, factors
    ratios = [length / size if size else 1.0 for size, length in zip(have, lengths, strict=True)]
    if policy == "stretch" or not ratios:
        return lengths, [ratio or 1.0 for ratio in ratios]
    common = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(common * size + 0.5) for size in have], [common] * len(axes)


def _parts(roi: Sequence[float] | None, count: int) -> list[tuple[float, float]]:
    """The start and the end of the region of interest along each axis."""
    if roi is None or not len(roi):
        return [(0.0, 1.0)] * count
    if len(roi) != 2 * count:
        message = f"roi has {len(roi)} numbers for {count} axes"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op="resize", hint="the starts along all axes, then the ends")
    bounds = [float(number(bound, "a bound of roi")) for bound in roi]
    return list(zip(bounds[:count], bounds[count:], strict=True))


def _resize_axis(x: Tensor, axis: int, rows: ResizedAxis) -> Tensor:
    """x with the rows along an axis."""
    (length, width), rank = rows.weights.shape, x.ndim
    if length == x.shape[axis] and width == 1 and (rows.weights == 1).all() and (rows.first == np.arange(length)).all():
        return x
    trailing = (1,) * (rank - axis - 1)
    if (rows.weights == 1).all() and width == 1:
        return elements_at(x, axis, rows.first)
    weights = rows.weights.astype(x.dtype.numpy)
    if width > _MOST_TERMS:
        taps = read_rows(x, axis, rows.first, width)
        used = constant(weights != 0).reshape(length, width, *trailing)
        return (where(used, taps, 0.0) * constant(weights).reshape(length, width, *trailing)).sum(axis + 1)
    total: Tensor | None = None
    for tap in range(width):
        weight = weights[:, tap]
        value = elements_at(x, axis, rows.first + tap)
        if not weight.all():
            value = where(constant(weight != 0).reshape(length, *trailing), value, 0.0)
        term = value * constant(weight).reshape(length, *trailing)
        total = term if total is None else total + term
    assert total is not None
    return total
