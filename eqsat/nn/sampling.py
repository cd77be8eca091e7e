"""Sampling of an image at the coordinates of a grid (torch's grid_sample, ONNX GridSample-20)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from eqsat.lazy.argument_checks import STAGE, flag, one_of
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, floats_of
from eqsat.tensor import Tensor, as_tensor, concatenate, full, full_like, where
from ir.diagnostics import Kind, fail

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
_CUBIC = -0.75
"""The coefficient a of cubic convolution (Keys, 1981) in torch and ONNX."""


@takes_torchs_names
def grid_sample(
    x: Tensor,
    grid: Operand,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """x [N, C, …] at the coordinates of grid [N, …, S], S the number of spatial axes of x, the last axis first: −1 and
    1 are the centres of the first and last element with `align_corners`, else the edges of the image.

    mode: "bilinear" ("linear"), "nearest" or "bicubic" ("cubic"), for any number of axes.
    padding_mode: elements outside are 0 ("zeros"), the nearest element ("border"), or mirrored ("reflection").
    """
    image, axes = _image_and_neighbours(x, grid, mode, padding_mode, align_corners)
    first, *others = _terms(image.flatten(2), image.shape[2:], axes)
    places = as_tensor(grid).shape[1:-1]
    return sum(others, first).reshape(*image.shape[:2], *places).cast(floats_of(as_tensor(x)).dtype)


def grid_sample_gradients(
    gradient: Tensor, x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the grid, from that of `grid_sample`; at the ends of the image as in torch."""
    image, axes = _image_and_neighbours(x, grid, mode, padding_mode, align_corners)
    corners = [*itertools.product(*axes)]
    given = gradient.cast(image.dtype).flatten(2)
    of_grid = _gradient_of_grid(given, image, corners).reshape(grid.shape)
    return _gradient_of_image(given, image, corners).cast(x.dtype), of_grid.cast(grid.dtype)


def _gradient_of_image(gradient: Tensor, image: Tensor, corners: Sequence[Corner]) -> Tensor:
    """Each gradient [N, C, points] is added at the neighbours of its point, times their weights."""
    n, channels, points = gradient.shape
    places = concatenate([_flat(_place(corner, image.shape[2:])) for corner in corners], 2)
    shares = concatenate([_weighted(_inside(gradient, corner), corner) for corner in corners], 2)
    zeros = full((n, channels, math.prod(image.shape[2:])), 0, image.dtype)
    return zeros.scatter(2, places.expand(n, channels, len(corners) * points), shares, "add").reshape(image.shape)


def _gradient_of_grid(gradient: Tensor, image: Tensor, corners: Sequence[Corner]) -> Tensor:
    """[N, points, S], the last axis of the image first: an element times the slope of its weight along one axis and its
    weights along the others."""
    totals: list[Tensor] = [full((gradient.shape[0], 1, gradient.shape[2]), 0, image.dtype)] * len(image.shape[2:])
    for corner in corners:
        along = (_element_at(image.flatten(2), image.shape[2:], corner) * gradient).sum(1, keepdims=True)
        for axis, neighbour in enumerate(corner):
            if neighbour.slope is not None:
                others = corner[:axis] + corner[axis + 1 :]
                totals[axis] = totals[axis] + _weighted(along * _flat(neighbour.slope).cast(along.dtype), others)
    return concatenate(totals[::-1], 1).swapaxes(1, 2)


def _image_and_neighbours(
    x: Operand, grid: Operand, mode: str, padding_mode: str, align_corners: bool
) -> tuple[Tensor, list[list[Neighbour]]]:
    """x in its accumulator, and the neighbours of the points along each spatial axis of x."""
    floats, points = floats_of(as_tensor(x)), floats_of(as_tensor(grid))
    sizes = floats.shape[2:]
    if not sizes or points.ndim != floats.ndim or points.shape[-1] != len(sizes) or points.shape[0] != floats.shape[0]:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            f"x {list(floats.shape)} has no grid {list(points.shape)}",
            op="grid_sample",
            hint="x [N, C, H, W] and grid [N, H', W', 2], or x [N, C, D, H, W] and grid [N, D', H', W', 3]",
        )
    if not all(sizes):
        fail(Kind.AXIS_SIZE_MISMATCH, STAGE, "an empty image has no samples", op="grid_sample", shape=floats.shape)
    kind = _MODES[one_of(mode, tuple(_MODES), "mode")]
    padding = one_of(padding_mode, ("zeros", "border", "reflection"), "padding_mode")
    aligned = flag(align_corners, "align_corners")
    wide = points.cast(points.dtype.accumulator)
    axes = [
        _neighbours(wide[..., len(sizes) - 1 - axis], size, kind, padding, aligned) for axis, size in enumerate(sizes)
    ]
    return floats.cast(floats.dtype.accumulator), axes


def sample_terms(x: Tensor, places: Sequence[Tensor], padding_mode: str) -> list[Tensor]:
    """The terms that bilinear interpolation adds up: 2^S neighbours times their weights, each [N, C, …], of x [N, C, S
    axes].

    places: per spatial axis of x the coordinate of each sample [N, …]; 0 is the first element, 1 the second.
    padding_mode: as in `grid_sample`, "zeros" or "border".
    """
    axes = [
        _neighbours_at(place, size, "linear", padding_mode, 0.0, size - 1.0)
        for place, size in zip(places, x.shape[2:], strict=True)
    ]
    shape = *x.shape[:2], *places[0].shape[1:]
    return [term.reshape(*shape) for term in _terms(x.flatten(2), x.shape[2:], axes)]


class Neighbour(NamedTuple):
    """Along one axis: the position of an element [N, …], whether it lies inside (None: always), its weight (None: 1),
    and the derivative of the weight by the coordinate of the point (None: 0)."""

    position: Tensor
    inside: Tensor | None
    weight: Tensor | None
    slope: Tensor | None


Corner = tuple[Neighbour, ...]
"""One neighbour along each axis: an element of the image."""


def _neighbours(points: Tensor, size: int, kind: str, padding: str, aligned: bool) -> list[Neighbour]:
    """The elements along an axis of `size` elements whose weighted sum is the value at the points [N, …]."""
    place = (points + 1) * ((size - 1) / 2) if aligned else ((points + 1) * size - 1) * 0.5
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    return _neighbours_at(place, size, kind, padding, low, high, (size - 1) / 2 if aligned else size / 2)


def _neighbours_at(
    place: Tensor, size: int, kind: str, padding: str, low: float, high: float, step: float = 1.0
) -> list[Neighbour]:
    """The same for places: 0 is the first element. low, high: the ends of the image. step: the derivative of the place
    by the coordinate."""
    if kind == "nearest":
        place = place.round()
    inside = (place >= low) & (place <= high)
    speed = full(place.shape, step, place.dtype)
    if padding == "border" and kind != "cubic":  # torch and onnxruntime move only the neighbours of cubic convolution
        place = where(inside, place, _clamp(place, size))
        speed = _stopped(speed, place, size)
    elif padding == "reflection":
        speed = where(_is_mirrored(place, low, high), -speed, speed)
        place = where(inside, place, _reflect(place, low, high))
        speed = speed if kind == "cubic" else _stopped(speed, place, size)
    if kind == "nearest":
        return [_element(place, size, padding, low, high, None, None)]
    start = place.floor()
    ratio = place - start
    offsets, weights = ((0, 1), _LINEAR) if kind == "linear" else ((-1, 0, 1, 2), _CUBICS)
    return [
        _element(start + offset, size, padding, low, high, weight.value(ratio), weight.slope(ratio) * speed)
        for offset, weight in zip(offsets, weights, strict=True)
    ]


def _stopped(speed: Tensor, place: Tensor, size: int) -> Tensor:
    """The speed of a place that is kept inside the image, which is 0 at and beyond the first and the last element."""
    return where((place > 0) & (place < size - 1), speed, 0.0)


def _element(
    place: Tensor, size: int, padding: str, low: float, high: float, weight: Tensor | None, slope: Tensor | None
) -> Neighbour:
    """The element at a whole place, which may lie outside the axis."""
    moved = _reflect(place, low, high) if padding == "reflection" else place
    inside = (place >= 0) & (place <= size - 1) if padding == "zeros" else None
    return Neighbour(_clamp(moved, size).cast("i32"), inside, weight, slope)


def _terms(image: Tensor, sizes: tuple[int, ...], axes: Sequence[Sequence[Neighbour]]) -> list[Tensor]:
    """The terms of image [N, C, elements] at all neighbours of the points: [N, C, points]."""
    return [_weighted(_element_at(image, sizes, corner), corner) for corner in itertools.product(*axes)]


def _element_at(image: Tensor, sizes: tuple[int, ...], corner: Corner) -> Tensor:
    """The elements of image [N, C, elements] at one neighbour along each axis: [N, C, points]."""
    place = _flat(_place(corner, sizes))
    return _inside(image.gather(2, place.expand(*image.shape[:2], place.shape[2])), corner)


def _place(corner: Corner, sizes: tuple[int, ...]) -> Tensor:
    """The place [N, …] in the flattened axes."""
    element = "i32" if math.prod(sizes) < 2**31 else "i64"
    place: Tensor | None = None
    for neighbour, size in zip(corner, sizes, strict=True):
        exact = neighbour.position.cast(element)
        place = exact if place is None else place * size + exact
    assert place is not None
    return place


def _flat(values: Tensor) -> Tensor:
    """Values of points [N, …] as [N, 1, points]."""
    return values.reshape(values.shape[0], 1, math.prod(values.shape[1:]))


def _inside(values: Tensor, corner: Corner) -> Tensor:
    """Values [N, C, points], 0 where the neighbour lies outside the image."""
    for neighbour in corner:
        values = values if neighbour.inside is None else where(_flat(neighbour.inside), values, 0.0)
    return values


def _weighted(values: Tensor, corner: Corner) -> Tensor:
    """Values [N, C, points] times the weights of the neighbour along each axis."""
    for neighbour in corner:
        values = values if neighbour.weight is None else values * _flat(neighbour.weight).cast(values.dtype)
    return values


def _clamp(place: Tensor, size: int) -> Tensor:
    return place.maximum(0.0).minimum(size - 1.0)


def _reflect(place: Tensor, low: float, high: float) -> Tensor:
    """The place, mirrored at `low` and `high` until it lies between them."""
    if high == low:
        return place * 0 + low
    distance = abs(place - low)
    turns = (distance * (1 / (high - low))).floor()
    rest = distance - turns * (high - low)
    return where(_is_even(turns), rest + low, high - rest)


def _is_mirrored(place: Tensor, low: float, high: float) -> Tensor:
    """Whether `_reflect` mirrors the place an odd number of times."""
    if high == low:
        return full(place.shape, False, "bool")
    turns = (abs(place - low) * (1 / (high - low))).floor()
    mirrored: Tensor = (place < low) ^ ~_is_even(turns)
    return mirrored


def _is_even(turns: Tensor) -> Tensor:
    even: Tensor = (turns * 0.5).floor() * 2 == turns
    return even


def _near(distance: Tensor) -> Tensor:
    return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1


def _near_slope(distance: Tensor) -> Tensor:
    return (3 * (_CUBIC + 2) * distance - 2 * (_CUBIC + 3)) * distance


def _far(distance: Tensor) -> Tensor:
    return ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC


def _far_slope(distance: Tensor) -> Tensor:
    return (3 * _CUBIC * distance - 10 * _CUBIC) * distance + 8 * _CUBIC


class _Weight(NamedTuple):
    """The weight of a neighbour, and its derivative by the distance from the second-last one before the point."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


_LINEAR = (
    _Weight(lambda ratio: 1 - ratio, lambda ratio: full_like(ratio, -1.0)),
    _Weight(lambda ratio: ratio, lambda ratio: full_like(ratio, 1.0)),
)
_CUBICS = (
    _Weight(lambda ratio: _far(ratio + 1), lambda ratio: _far_slope(ratio + 1)),
    _Weight(_near, _near_slope),
    _Weight(lambda ratio: _near(1 - ratio), lambda ratio: -_near_slope(1 - ratio)),
    _Weight(lambda ratio: _far(2 - ratio), lambda ratio: -_far_slope(2 - ratio)),
)
