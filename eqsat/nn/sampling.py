"""Sampling of an image at the coordinates of a grid (torch's grid_sample, ONNX GridSample-20)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from eqsat.lazy.argument_checks import STAGE, flag, one_of
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, floats_of
from eqsat.tensor import Tensor, as_tensor, where
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
    image = floats.cast(floats.dtype.accumulator).flatten(2)
    first, *others = _terms(image, sizes, axes)
    return sum(others, first).reshape(*floats.shape[:2], *points.shape[1:-1]).cast(floats.dtype)


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


Neighbour = tuple[Tensor, Tensor | None, Tensor | None]
"""Along one axis: the index of an element [N, …], whether it lies inside (None: always), and its weight (None: 1)."""


def _neighbours(points: Tensor, size: int, kind: str, padding: str, aligned: bool) -> list[Neighbour]:
    """The elements along an axis of `size` elements whose weighted sum is the value at the points [N, …]."""
    place = (points + 1) * ((size - 1) / 2) if aligned else ((points + 1) * size - 1) * 0.5
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    return _neighbours_at(place, size, kind, padding, low, high)


def _neighbours_at(place: Tensor, size: int, kind: str, padding: str, low: float, high: float) -> list[Neighbour]:
    """The same for places: 0 is the first element. low, high: the ends of the image."""
    place = place.round() if kind == "nearest" else place
    inside = (place >= low) & (place <= high)
    if padding == "border" and kind != "cubic":  # torch and onnxruntime move only the neighbours of cubic convolution
        place = where(inside, place, _clamp(place, size))
    elif padding == "reflection":
        place = where(inside, place, _reflect(place, low, high))
    if kind == "nearest":
        return [_element(place, size, padding, low, high, None)]
    start = place.floor()
    ratio = place - start
    offsets, weights = ((0, 1), _LINEAR) if kind == "linear" else ((-1, 0, 1, 2), _CUBICS)
    return [
        _element(start + offset, size, padding, low, high, weight(ratio))
        for offset, weight in zip(offsets, weights, strict=True)
    ]


def _element(place: Tensor, size: int, padding: str, low: float, high: float, weight: Tensor | None) -> Neighbour:
    """The element at a whole place, which may lie outside the axis."""
    moved = _reflect(place, low, high) if padding == "reflection" else place
    inside = (place >= 0) & (place <= size - 1) if padding == "zeros" else None
    return _clamp(moved, size).cast("i32"), inside, weight


def _terms(image: Tensor, sizes: tuple[int, ...], axes: Sequence[Sequence[Neighbour]]) -> list[Tensor]:
    """The terms of image [N, C, elements] at all neighbours of the points."""
    return [_term(image, sizes, neighbours) for neighbours in itertools.product(*axes)]


def _term(image: Tensor, sizes: tuple[int, ...], neighbours: tuple[Neighbour, ...]) -> Tensor:
    """The elements of image [N, C, elements] at one neighbour along each axis, times the weights: [N, C, points]."""
    element = "i32" if math.prod(sizes) < 2**31 else "i64"
    place: Tensor | None = None
    for (index, _, _), size in zip(neighbours, sizes, strict=True):
        exact = index.cast(element)
        place = exact if place is None else place * size + exact
    assert place is not None
    points = math.prod(place.shape[1:])

    def flat(values: Tensor) -> Tensor:
        return values.reshape(values.shape[0], 1, points)

    value = image.gather(2, flat(place).expand(*image.shape[:2], points))
    for _, inside, _ in neighbours:
        value = value if inside is None else where(flat(inside), value, 0.0)
    for _, _, weight in neighbours:
        value = value if weight is None else value * flat(weight).cast(value.dtype)
    return value


def _clamp(place: Tensor, size: int) -> Tensor:
    return place.maximum(0.0).minimum(size - 1.0)


def _reflect(place: Tensor, low: float, high: float) -> Tensor:
    """The place, mirrored at `low` and `high` until it lies between them."""
    if high == low:
        return place * 0 + low
    distance = abs(place - low)
    turns = (distance * (1 / (high - low))).floor()
    rest = distance - turns * (high - low)
    is_even = (turns * 0.5).floor() * 2 == turns
    return where(is_even, rest + low, high - rest)


def _near(distance: Tensor) -> Tensor:
    return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1


def _far(distance: Tensor) -> Tensor:
    return ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC


Weight = Callable[[Tensor], Tensor]
_LINEAR: tuple[Weight, ...] = (lambda ratio: 1 - ratio, lambda ratio: ratio)
_CUBICS: tuple[Weight, ...] = (
    lambda ratio: _far(ratio + 1),
    _near,
    lambda ratio: _near(1 - ratio),
    lambda ratio: _far(2 - ratio),
)
"""The weights of neighbours, by the distance from the second-last one before the point."""
