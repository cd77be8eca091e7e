"""Pools of [N, C, …] or [C, …], and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.known_value import known_value
from eqsat.tensor import Tensor, constant, full
from ir.dtype import DType

Sizes = Sequence[int]


def _batched(x: Tensor, axes: int) -> Tensor:
    """x [N, C, …] of an image with so many spatial axes; N = 1 where x has no batch."""
    return x if x.ndim == axes + 2 else x.unsqueeze(0)


def _spread(sizes: Sizes | int, axes: int) -> list[int]:
    """One number per spatial axis; a single one is that of all."""
    given = [sizes] if isinstance(sizes, int) else list(sizes)
    return given * axes if len(given) == 1 else given


def _max_pool(
    x: Tensor, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool, *, axes: int
) -> tuple[Tensor, Tensor]:
    taps = _spread(kernel, axes)
    steps = _spread(stride, axes) if stride else taps
    around, apart = _spread(padding, axes), _spread(dilation, axes)
    pooled = nn.max_pool(_batched(x, axes), taps, steps, around, apart, ceil_mode, return_indices=True)
    assert isinstance(pooled, tuple)
    best, places = (value.reshape(*x.shape[: x.ndim - axes], *value.shape[2:]) for value in pooled)
    return best, places


def _max_pool_gradient(gradient: Tensor, x: Tensor, *rest: object, axes: int) -> Tensor:
    """Adds every gradient at the place of its maximum."""
    places = rest[-1]
    assert isinstance(places, Tensor)
    lead, image = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    planes, windows = math.prod(lead), math.prod(gradient.shape[x.ndim - axes :])
    zeros = full((planes, math.prod(image)), 0, x.dtype)
    at, updates = places.reshape(planes, windows), gradient.reshape(planes, windows)
    return zeros.scatter(1, at, updates, "add").reshape(x.shape)


def _avg_pool(
    x: Tensor,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None = None,
    *,
    axes: int,
) -> Tensor:
    taps = _spread(kernel, axes)
    steps = _spread(stride, axes) if stride else taps
    around = _spread(padding, axes)
    wide = _batched(x, axes).cast(x.dtype.accumulator)
    pooled = nn.avg_pool(wide, taps, steps, around, ceil_mode, count_include_pad, divisor)
    return pooled.cast(x.dtype).reshape(*x.shape[: x.ndim - axes], *pooled.shape[2:])


def _avg_pool_gradient(
    gradient: Tensor,
    x: Tensor,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    *,
    axes: int,
) -> Tensor:
    """Divides every gradient as the forward pass divides its window, and adds the quotient to all elements of the
    window."""
    image = _batched(x, axes)
    taps, around = _spread(kernel, axes), _spread(padding, axes)
    steps = _spread(stride, axes) if stride else taps
    ones = full((1, 1, *image.shape[2:]), 1.0, x.dtype.accumulator)
    pool = partial(nn.avg_pool, ones, taps, steps, around, ceil_mode)
    counts = full((1,), float(divisor), ones.dtype) if divisor else pool(True, 1.0) / pool(count_include_pad)
    shares = _batched(gradient, axes).cast(ones.dtype) / counts
    places, elements = shares.shape[2:], math.prod(taps)
    columns = shares.reshape(*shares.shape[:2], 1, math.prod(places)).expand(
        *shares.shape[:2], elements, math.prod(places)
    )
    windows = columns.reshape(shares.shape[0], shares.shape[1] * elements, math.prod(places))
    ends = ((n - 1) * step + tap - 2 * pad for n, step, tap, pad in zip(places, steps, taps, around, strict=True))
    reached = [
        max(size, end) for size, end in zip(image.shape[2:], ends, strict=True)
    ]  # with ceil_mode, beyond the image
    whole = nn.fold(windows, reached, taps, 1, around, steps)
    return whole[(..., *map(slice, image.shape[2:]))].cast(x.dtype).reshape(x.shape)


for _axes in (2, 3):
    aten(f"max_pool{_axes}d_with_indices")(partial(_max_pool, axes=_axes))
    aten(f"max_pool{_axes}d_with_indices_backward", f"adaptive_max_pool{_axes}d_backward")(
        partial(_max_pool_gradient, axes=_axes)
    )
    aten(f"avg_pool{_axes}d")(partial(_avg_pool, axes=_axes))
    aten(f"avg_pool{_axes}d_backward")(partial(_avg_pool_gradient, axes=_axes))


def _adaptive_avg_pool(x: Tensor, sizes: Sizes, *, axes: int) -> Tensor:
    pooled = nn.adaptive_avg_pool(_batched(x, axes), _spread(sizes, axes))
    return pooled.reshape(*x.shape[: x.ndim - axes], *pooled.shape[2:])


def _adaptive_avg_pool_gradient(gradient: Tensor, x: Tensor, *, axes: int) -> Tensor:
    """The gradient of windows of one size, which lie side by side, is repeated. Others take a matrix per axis."""
    image, pooled = x.shape[-axes:], gradient.shape[-axes:]
    if any(size % places for size, places in zip(image, pooled, strict=True)):
        wide = gradient.cast(gradient.dtype.accumulator)
        for axis, size, places in zip(range(-axes, 0), image, pooled, strict=True):
            wide = (wide.swapaxes(axis, -1) @ _means(size, places, wide.dtype)).swapaxes(axis, -1)
        return wide.cast(gradient.dtype)
    spread = gradient * (math.prod(pooled) / math.prod(image))
    for axis in range(-axes, 0):
        spread = spread.repeat_interleave(x.shape[axis] // gradient.shape[axis], axis)
    return spread


def _means(size: int, places: int, dtype: DType) -> Tensor:
    """[places, size]: row i times an axis of `size` elements is the mean of window i."""
    units = np.eye(size, dtype=dtype.numpy).reshape(size, 1, size)
    means = nn.adaptive_avg_pool(constant(units), [places]).reshape(size, places).T
    return constant(known_value(means, "a matrix of means", STAGE).copy())


for _axes in (2, 3):
    aten(f"_adaptive_avg_pool{_axes}d", f"adaptive_avg_pool{_axes}d")(partial(_adaptive_avg_pool, axes=_axes))
    aten(f"_adaptive_avg_pool{_axes}d_backward")(partial(_adaptive_avg_pool_gradient, axes=_axes))
