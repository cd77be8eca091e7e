"""Operators that change the shape of a tensor, and those that read a shape."""

from __future__ import annotations

import math

from eqsat import tensor
from eqsat.frontends.onnx.operands import known_integers
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor, broadcast_shape


@operator("Shape")
def _shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return tensor.constant(list(x.shape[slice(start, end)]), "i64")


@operator("Size")
def _size(x: Tensor) -> Tensor:
    return tensor.constant(x.size, "i64")


@operator("Reshape")
def _reshape_by_attribute(x: Tensor, *, shape: tuple[int, ...], consumed_inputs: list[int] | None = None) -> Tensor:
    return reshape(x, shape, allow_zero=False)


@operator("Reshape", since=5)
def _reshape(x: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    return reshape(x, known_integers(shape, "the shape"), bool(allowzero))


def reshape(x: Tensor, shape: list[int] | tuple[int, ...], allow_zero: bool) -> Tensor:
    """`shape` may hold one -1; a 0 keeps the size of the axis, unless `allow_zero`."""
    return x.reshape([x.shape[place] if size == 0 and not allow_zero else size for place, size in enumerate(shape)])


@operator("Flatten")
def _flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """To rank 2: the axes before `axis`, and the others."""
    first = x.ndim if axis == x.ndim else axis_in(axis, x.shape)
    return x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:]))


@operator("Squeeze")
def _squeeze_attribute(x: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    return x.squeeze(axes)


@operator("Squeeze", since=13)
def _squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.squeeze(None if axes is None else known_integers(axes, "the list of axes"))


@operator("Unsqueeze")
def _unsqueeze_attribute(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    return unsqueeze(x, axes)


@operator("Unsqueeze", since=13)
def _unsqueeze(x: Tensor, axes: Tensor) -> Tensor:
    return unsqueeze(x, known_integers(axes, "the list of axes"))


def unsqueeze(x: Tensor, axes: list[int] | tuple[int, ...]) -> Tensor:
    """New axes of size 1 at these positions of the result."""
    rank = x.ndim + len(axes)
    places = {axis_in(axis, (1,) * rank) for axis in axes}
    sizes = iter(x.shape)
    return x.reshape([1 if place in places else next(sizes) for place in range(rank)])


@operator("Expand", since=8)
def _expand(x: Tensor, shape: Tensor) -> Tensor:
    """Broadcasts in both directions."""
    return x.expand(broadcast_shape("Expand", x.shape, tuple(known_integers(shape, "the shape"))))


@operator("DepthToSpace")
def _depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    depth = c // blocksize**2
    if mode == "DCR":
        split = x.reshape(n, blocksize, blocksize, depth, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        split = x.reshape(n, depth, blocksize, blocksize, h, w).permute(0, 1, 4, 2, 5, 3)
    return split.reshape(n, depth, h * blocksize, w * blocksize)


@operator("SpaceToDepth")
def _space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(*order).reshape(n, c * blocksize**2, h // blocksize, w // blocksize)
