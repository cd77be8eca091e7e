"""Pools: the maximum, the mean or the norm of each window of an image."""

from __future__ import annotations

import math
from typing import Literal, overload

from eqsat.lazy.argument_checks import STAGE, flag, number
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import floats_of, image_of, over_axes
from eqsat.nn.windows import Padding, PerAxis, Window, pad_around, slide, windows_over
from eqsat.tensor import Tensor, arange, constant, where
from ir.diagnostics import Kind, fail


@overload
def max_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = ...,
    padding: Padding = ...,
    dilation: PerAxis = ...,
    ceil_mode: bool = ...,
    *,
    return_indices: bool,
) -> Tensor | tuple[Tensor, Tensor]: ...


@takes_torchs_names
def max_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The maximum of each window of x [N, C, …]; padding never wins, NaN does.

    ceil_mode: keep an incomplete last window, if it begins inside the image or the padding before it.
    return_indices: also the place of each maximum in the flattened spatial axes, i64; of equal ones the first.
    """
    op = "max_pool"
    x = image_of(x, op)
    axes = x.ndim - 2
    plan = windows_over(op, x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    windows = slide(pad_around(x, plan, x.dtype.lowest), plan)
    best = windows.max(tuple(range(-axes, 0)))
    if not flag(return_indices, "return_indices"):
        return best
    if any(_has_empty_window(axis) for axis in plan):
        hint = "less padding than a window is wide"
        fail(Kind.AXIS_SIZE_MISMATCH, STAGE, "a window of padding alone has no index", op=op, hint=hint, shape=x.shape)
    plane = math.prod(x.shape[2:])
    places = slide(pad_around(places_in_plane(x.shape[2:]), plan, plane), plan)
    return best, greatest_place(windows, best, places, axes, plane)


@takes_torchs_names
def avg_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
    dilation: PerAxis = 1,
) -> Tensor:
    """The mean of each window of x [N, C, …].

    ceil_mode: keep an incomplete last window, as in `max_pool`; what it lacks does not count.
    count_include_pad: whether padded elements count.
    divisor_override: the number by which the sum of every window is divided.
    """
    op = "avg_pool"
    x = floats_of(image_of(x, op))
    axes = x.ndim - 2
    plan = windows_over(op, x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    over = tuple(range(-axes, 0))
    windows = slide(pad_around(x, plan), plan)
    total = windows.sum(over)
    if divisor_override is not None:
        if not number(divisor_override, "divisor_override"):
            fail(Kind.MALFORMED_GRAPH, STAGE, "divisor_override is 0", op=op, hint="another number, or None")
        return total * (1 / divisor_override)
    counted = [_counted(axis, flag(count_include_pad, "count_include_pad")) for axis in plan]
    if not any(axis.before or axis.after or axis.beyond for axis in counted):
        return total * (1 / math.prod(windows.shape[-axes:]))
    ones = constant(1.0, x.dtype).expand(1, 1, *(axis.size for axis in counted))
    return total / slide(pad_around(ones, counted), counted).sum(over)


@takes_torchs_names
def lp_pool(
    x: Tensor,
    norm_type: float,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    ceil_mode: bool = False,
    padding: Padding = 0,
    dilation: PerAxis = 1,
) -> Tensor:
    """The norm (Σ |x|^p)^(1/p), p = norm_type, of each window of x [N, C, …]; padding is 0."""
    op = "lp_pool"
    x = floats_of(image_of(x, op))
    axes = x.ndim - 2
    power = number(norm_type, "norm_type")
    if not power > 0:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"there is no norm of type {power}", op=op, hint="a number above 0")
    plan = windows_over(op, x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    wide = x.cast(x.dtype.accumulator)
    raised = abs(wide) if power == 1 else wide * wide if power == 2 else abs(wide) ** power
    total = slide(pad_around(raised, plan), plan).sum(tuple(range(-axes, 0)))
    norm = total if power == 1 else total.sqrt() if power == 2 else total ** (1 / power)
    return norm.cast(x.dtype)


max_pool1d = over_axes(max_pool, "max_pool1d", 1)
max_pool2d = over_axes(max_pool, "max_pool2d", 2)
max_pool3d = over_axes(max_pool, "max_pool3d", 3)
avg_pool1d = over_axes(avg_pool, "avg_pool1d", 1)
avg_pool2d = over_axes(avg_pool, "avg_pool2d", 2)
avg_pool3d = over_axes(avg_pool, "avg_pool3d", 3)
lp_pool1d = over_axes(lp_pool, "lp_pool1d", 1)
lp_pool2d = over_axes(lp_pool, "lp_pool2d", 2)
lp_pool3d = over_axes(lp_pool, "lp_pool3d", 3)


def greatest_place(values: Tensor, best: Tensor, places: Tensor, axes: int, beyond: int) -> Tensor:
    """The least of the `places` at which the last `axes` axes of `values` are the `best` or NaN, i64. A place of
    padding is `beyond`, which is more than all others."""
    kept = best.reshape(*best.shape, *(1,) * axes)
    is_best = (values == kept) | (values != values) if values.dtype.is_float else values == kept
    return where(is_best, places, beyond).min(tuple(range(-axes, 0))).cast("i64")


def places_in_plane(sizes: tuple[int, ...]) -> Tensor:
    """[1, 1, *sizes] with the place of each element in the flattened plane."""
    total = math.prod(sizes)
    return arange(total, dtype="i32" if total < 2**31 else "i64").reshape(1, 1, *sizes)


def _has_empty_window(axis: Window) -> bool:
    """Whether a window holds no element of the image."""
    starts = [place * axis.stride - axis.before for place in range(axis.places)]
    return any(all(not 0 <= start + tap * axis.dilation < axis.size for tap in range(axis.kernel)) for start in starts)


def _counted(axis: Window, count_padding: bool) -> Window:
    """The windows over the elements that count; the others are padding."""
    return axis._replace(size=axis.before + axis.size + axis.after, before=0, after=0) if count_padding else axis
