"""Which elements of an axis, with which weights, make each element of a resized axis (ONNX Resize-19), by NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from eqsat.lazy.argument_checks import one_of
from eqsat.nn.known_positions import index_step
from ir.diagnostics import Kind, fail

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""The element that is nearest to a coordinate."""


class Sampling(NamedTuple):
    """How an axis is resized; the names and their meanings are those of ONNX Resize-19."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


class ResizedAxis(NamedTuple):
    """Element i of the resized axis is the sum over j of weights[i, j] · element first[i] + j of the axis. Elements of
    weight 0 are not read. outside: where the coordinate lies outside the axis, and the value is extrapolated."""

    first: np.ndarray
    weights: np.ndarray
    outside: np.ndarray


def resize_rows(size: int, length: int, scale: float, roi: tuple[float, float], sampling: Sampling) -> ResizedAxis:
    """The rows of an axis of `size` elements that becomes `length` elements.

    scale: elements of the result per element of the axis. roi: the part of the axis, in fractions of it, that
    tf_crop_and_resize reads.
    """
    # In fp32 as in onnxruntime: rounding decides which element is nearest.
    precision = np.float32 if sampling.mode == "nearest" else np.float64
    places = np.arange(length, dtype=precision)
    coordinates = _coordinates(size, places, scale, roi, sampling.coordinate_transformation_mode)
    outside = np.zeros(length, bool)
    if sampling.coordinate_transformation_mode == "tf_crop_and_resize":
        outside = ~((coordinates >= 0) & (coordinates <= size - 1))
        coordinates = np.where(outside, 0.0, coordinates)
    index, weights = _neighbours(coordinates, scale, sampling)
    if sampling.exclude_outside and sampling.mode != "nearest":
        weights = np.where((index < 0) | (index >= size), 0.0, weights)
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    return ResizedAxis(*_keep_inside(*_merge(np.clip(index, 0, size - 1), weights), size), outside)


def nearest_rows_of_torch(
    size: int, length: int, scale: float, exact: bool, precision: type[np.floating[Any]]
) -> ResizedAxis:
    """The rows of torch's modes "nearest" and, if `exact`, "nearest-exact": the element at the start or in the middle
    of an element of the result. torch multiplies by the inverse of the scale in fp32, or in fp64 for tensors of fp64,
    and rounds down.

    Source: nearest_neighbor_compute_source_index of ATen/native/UpSample.h.
    """
    of_sizes = bool(length) and scale == length / size
    step = precision(size) / precision(length) if of_sizes else precision(1 / scale)
    places = np.arange(length) + (0.5 if exact else 0.0)
    index = np.minimum(np.floor((places * np.float64(step)).astype(precision)), size - 1).astype(np.int64)
    return ResizedAxis(index, np.ones((length, 1)), np.zeros(length, bool))


def _coordinates(size: int, places: np.ndarray, scale: float, roi: tuple[float, float], mode: str) -> np.ndarray:
    """The coordinate in the axis of every element of the result. The length of the result is a whole number, as in
    torch and onnxruntime; onnx's own evaluator takes the product of size and scale for it."""
    one_of(mode, COORDINATES, "coordinate_transformation_mode")
    length = len(places)
    if mode == "align_corners":
        return places * 0 if length == 1 else places * (size - 1) / (length - 1)
    if mode == "asymmetric":
        return places / scale
    if mode == "tf_half_pixel_for_nn":
        return (places + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, stop = roi
        if length == 1:
            return places * 0 + (start + stop) * (size - 1) / 2
        return start * (size - 1) + places * (stop - start) * (size - 1) / (length - 1)
    if mode == "pytorch_half_pixel" and length <= 1:
        return places * 0
    if mode == "half_pixel_symmetric":
        exact = np.full_like(places, scale) * size
        return size / 2 * (1 - length / exact) + (places + 0.5) / scale - 0.5
    return (places + 0.5) / scale - 0.5


def _neighbours(coordinates: np.ndarray, scale: float, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """The elements near every coordinate, which may lie outside the axis, and their weights: [length, neighbours]."""
    mode = one_of(sampling.mode, ("nearest", "linear", "cubic"), "mode")
    if mode == "nearest":
        if sampling.antialias:
            hint = "linear or cubic"
            fail(Kind.UNSUPPORTED_OP, "tensor", "antialias of the mode 'nearest'", op="resize", hint=hint)
        nearest = NEAREST[one_of(sampling.nearest_mode, tuple(NEAREST), "nearest_mode")]
        return nearest(coordinates).astype(np.int64)[:, None], np.ones((len(coordinates), 1))
    shrinking = min(scale, 1.0) if sampling.antialias else 1.0
    reach = 1 if mode == "linear" else 2
    before = math.ceil(reach / shrinking)
    index = np.floor(coordinates).astype(np.int64)[:, None] + np.arange(1 - before, before + 1)
    distance = np.abs(index - coordinates[:, None]) * shrinking
    weights = np.maximum(1 - distance, 0) if mode == "linear" else _cubic(distance, sampling.cubic_coeff_a)
    return index, weights / weights.sum(1, keepdims=True) if sampling.antialias else weights


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """The kernel of cubic convolution (Keys, 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _merge(index: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first element of every row, and the weights of the elements from it on; equal elements of a row are one."""
    if not index.size:
        return index[:, 0], np.ones((len(index), 1))
    used = weights != 0
    used[~used.any(1)] = True
    first = np.where(used, index, np.iinfo(np.int64).max).min(1)
    last = np.where(used, index, -1).max(1)
    merged = np.zeros((len(index), int((last - first).max()) + 1))
    row, column = np.nonzero(used)
    np.add.at(merged, (row, index[row, column] - first[row]), weights[row, column])
    return first, merged


def _keep_inside(first: np.ndarray, weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The same sums, in rows that end inside the axis, so that reads need no padding. A row that would end beyond it
    begins earlier, with weights of 0, unless no index expression gives the first elements then."""
    width = weights.shape[1]
    early = np.maximum(first + width - size, 0)
    if width > size or not early.any() or (index_step(first) and not index_step(first - early)):
        return first, weights
    moved, (row, column) = np.zeros_like(weights), np.nonzero(weights)
    moved[row, column + early[row]] = weights[row, column]
    return first - early, moved
