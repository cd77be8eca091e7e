"""Images of other sizes, and the gradients of such operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.known_value import known_value
from eqsat.nn.resizing import resize_as_torch
from eqsat.tensor import Tensor, constant, iota
from ir.dtype import fp32, fp64

_MODES = {
    "upsample_nearest1d": "nearest",
    "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest",
    "_upsample_nearest_exact1d": "nearest-exact",
    "_upsample_nearest_exact2d": "nearest-exact",
    "_upsample_nearest_exact3d": "nearest-exact",
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "bilinear",
    "upsample_trilinear3d": "trilinear",
    "upsample_bicubic2d": "bicubic",
    "_upsample_bilinear2d_aa": "bilinear",
    "_upsample_bicubic2d_aa": "bicubic",
}
"""torch's name of the mode. All but the nearest modes have `align_corners`. With `_aa`, an element is a mean over the
elements that it covers where the image shrinks."""
_ONE_AXIS = {"bilinear": "linear", "trilinear": "linear"}
"""The mode along one axis of modes that are products of such along each axis."""

Scales = list[float | None]


class _Mode(NamedTuple):
    """How values between elements are computed; aligned, smooth: `align_corners` and `antialias`."""

    name: str
    aligned: bool
    smooth: bool


def _resize(x: Tensor, sizes: list[int] | None, scales: Scales | None, mode: _Mode) -> Tensor:
    """Coordinates follow from the scales if they are given, else from the sizes."""
    given = scales or [None] * (x.ndim - 2)
    images = x.shape[2:]
    lengths = sizes or [math.floor(size * (scale or 1)) for size, scale in zip(images, given, strict=True)]
    known = [scale or length / size for size, length, scale in zip(images, lengths, given, strict=True)]
    wide = x if mode.name.startswith("nearest") or not x.dtype.is_float else x.cast(x.dtype.accumulator)
    placed = None if given.count(None) == len(given) else known
    return resize_as_torch(wide, lengths, placed, mode.name, mode.aligned, mode.smooth).cast(x.dtype)


def _gradient(gradient: Tensor, sizes: list[int], shape: list[int], scales: Scales | None, mode: _Mode) -> Tensor:
    """The transposed operator, which is one matrix along each axis."""
    resized = gradient.cast(gradient.dtype.accumulator)
    for place, (small, large) in enumerate(zip(shape[2:], sizes, strict=True)):
        along = [None] if not scales or scales[place] is None else [scales[place]]
        resized = _apply(resized, _matrix(small, large, along, mode), place + 2)
    return resized.cast(gradient.dtype)


def _matrix(small: int, large: int, scale: Any, mode: _Mode) -> Tensor:
    """[small, large]: row i is the resized unit vector i."""
    units = constant(1.0, fp64) * (iota((small, small), 0) == iota((small, small), 1)).cast(fp64)
    if mode.smooth or mode.name == "bicubic":  # which take images of two axes alone
        square = units.reshape(small, 1, small, 1).expand(small, 1, small, 4)
        resized = _resize(square, [large, 4], [*scale, 1.0 if scale[0] else None], mode)[..., 0]
    else:
        along = mode._replace(name=_ONE_AXIS.get(mode.name, mode.name))
        resized = _resize(units.reshape(small, 1, small), [large], scale, along)
    return constant(known_value(resized.reshape(small, large), "a matrix of weights", STAGE).copy(), fp32)


def _apply(x: Tensor, matrix: Tensor, axis: int) -> Tensor:
    """x with `matrix` [small, large] applied along an axis of `large` elements."""
    return (x.swapaxes(axis, -1) @ matrix.cast(x.dtype).T).swapaxes(axis, -1)


def _register(name: str, mode: str) -> None:
    has_corners, smooth = not mode.startswith("nearest"), name.endswith("_aa")

    def mode_of(rest: tuple[Any, ...]) -> tuple[_Mode, tuple[Any, ...]]:
        aligned, scales = (rest[0], rest[1:]) if has_corners else (False, rest)
        return _Mode(mode, aligned, smooth), scales

    def lower(x: Tensor, sizes: list[int], *rest: Any) -> Tensor:
        own, scales = mode_of(rest)
        return _resize(x, sizes, list(scales), own)

    def lower_list(x: Tensor, sizes: list[int] | None, *rest: Any) -> Tensor:
        own, (scales,) = mode_of(rest)
        return _resize(x, sizes, scales, own)

    def lower_gradient(gradient: Tensor, sizes: list[int], shape: list[int], *rest: Any) -> Tensor:
        own, scales = mode_of(rest)
        return _gradient(gradient, sizes, shape, list(scales), own)

    lowerings: dict[str, Callable[..., Tensor]] = {"": lower, ".vec": lower_list, "_backward": lower_gradient}
    for ending, lowering in lowerings.items():
        aten(f"{name}{ending}")(lowering)


for _name, _mode in _MODES.items():
    _register(_name, _mode)
