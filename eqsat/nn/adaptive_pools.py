"""Pools that divide an image into a given number of windows, which may overlap and differ in size by one.

Window i of n over an axis of s elements reads from ⌊i·s / n⌋ to ⌈(i + 1)·s / n⌉.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, overload

import numpy as np

from eqsat.lazy.argument_checks import STAGE, flag, integer
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import floats_of, image_of, over_axes
from eqsat.nn.pools import greatest_place, places_in_plane
from eqsat.tensor import Tensor, constant, where
from ir.diagnostics import Kind, fail

OutputSize = int | Sequence[int | None]
"""How many windows there are along all axes, or along each one; None keeps the size of an axis."""


@takes_torchs_names
def adaptive_avg_pool(x: Tensor, output_size: OutputSize) -> Tensor:
    """The means of `output_size` windows along each spatial axis of x [N, C, …]."""
    op = "adaptive_avg_pool"
    x = floats_of(image_of(x, op))
    axes = x.ndim - 2
    places = _places(op, x.shape[2:], output_size)
    counts = [last - first for first, last in _bounds(x.shape[2:], places)]
    elements = constant(np.asarray(math.prod(np.ix_(*counts)), x.dtype.accumulator.numpy))
    wide = x.cast(x.dtype.accumulator)
    return (_windows(wide, places, 0).sum(tuple(range(-axes, 0))) / elements).cast(x.dtype)


@overload
def adaptive_max_pool(x: Tensor, output_size: OutputSize, return_indices: Literal[False] = False) -> Tensor: ...


@overload
def adaptive_max_pool(x: Tensor, output_size: OutputSize, return_indices: bool) -> Tensor | tuple[Tensor, Tensor]: ...


@takes_torchs_names
def adaptive_max_pool(
    x: Tensor, output_size: OutputSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The maxima of `output_size` windows along each spatial axis of x [N, C, …]; `return_indices` as in
    `max_pool`."""
    op = "adaptive_max_pool"
    x = image_of(x, op)
    axes = x.ndim - 2
    places = _places(op, x.shape[2:], output_size)
    windows = _windows(x, places, x.dtype.lowest)
    best = windows.max(tuple(range(-axes, 0)))
    if not flag(return_indices, "return_indices"):
        return best
    plane = math.prod(x.shape[2:])
    return best, greatest_place(windows, best, _windows(places_in_plane(x.shape[2:]), places, plane), axes, plane)


adaptive_avg_pool1d = over_axes(adaptive_avg_pool, "adaptive_avg_pool1d", 1)
adaptive_avg_pool2d = over_axes(adaptive_avg_pool, "adaptive_avg_pool2d", 2)
adaptive_avg_pool3d = over_axes(adaptive_avg_pool, "adaptive_avg_pool3d", 3)
adaptive_max_pool1d = over_axes(adaptive_max_pool, "adaptive_max_pool1d", 1)
adaptive_max_pool2d = over_axes(adaptive_max_pool, "adaptive_max_pool2d", 2)
adaptive_max_pool3d = over_axes(adaptive_max_pool, "adaptive_max_pool3d", 3)


def _places(op: str, sizes: tuple[int, ...], output_size: OutputSize) -> tuple[int, ...]:
    """How many windows there are along each axis."""
    given = output_size if isinstance(output_size, list | tuple) else (output_size,) * len(sizes)
    fits = len(given) == len(sizes)
    places = tuple(
        size if places is None else integer(places, "output_size") for size, places in zip(sizes, given, strict=False)
    )
    if not fits or min(*places, *sizes) < 1:
        message = f"no output of size {list(given)} of an image of size {list(sizes)}"
        fail(Kind.AXIS_SIZE_MISMATCH, STAGE, message, op=op, hint="per axis a number from 1 on, or None")
    return places


def _bounds(sizes: Sequence[int], places: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The first element of each window, and the first behind it, along each axis."""
    return [
        (np.arange(count) * size // count, -(-np.arange(1, count + 1) * size // count))
        for size, count in zip(sizes, places, strict=True)
    ]


def _windows(x: Tensor, places: tuple[int, ...], fill: float | int) -> Tensor:
    """x [N, C, …] as [N, C, places along each axis, elements of the longest window along each axis]. Where a window is
    shorter, it ends with `fill`."""
    sizes, axes = x.shape[2:], len(places)
    bounds = _bounds(sizes, places)
    longest = [int((last - first).max()) for first, last in bounds]
    beyond = [int(first[-1]) + most - size for (first, _), most, size in zip(bounds, longest, sizes, strict=True)]
    expressions = [
        f"({size}*i{2 + axis})//{count} + i{2 + axes + axis}"
        for axis, (size, count) in enumerate(zip(sizes, places, strict=True))
    ]
    padded = x.pad([(0, 0), (0, 0), *((0, more) for more in beyond)])
    shape = (*x.shape[:2], *places, *longest)
    windows = Tensor("VIEW", [padded], {"result_shape": shape, "index_map": ["i0", "i1", *expressions]})
    for axis, ((first, last), most) in enumerate(zip(bounds, longest, strict=True)):
        inside = np.arange(most) < (last - first)[:, None]
        if not inside.all():
            aligned = [1] * (2 * axes)
            aligned[axis], aligned[axes + axis] = inside.shape
            windows = where(constant(inside).reshape(aligned), windows, fill)
    return windows
