"""Operators that change the shape of a tensor, and those that read a shape."""

from __future__ import annotations

from eqsat import tensor
from eqsat.frontends import ops
from eqsat.frontends.onnx.operands import known_integers
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.tensor import Tensor


@operator("Shape")
def _shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return tensor.constant(list(x.shape[slice(start, end)]), "i64")


@operator("Size")
def _size(x: Tensor) -> Tensor:
    return tensor.constant(x.size, "i64")


@operator("Reshape")
def _reshape_by_attribute(x: Tensor, *, shape: tuple[int, ...], consumed_inputs: list[int] | None = None) -> Tensor:
    return ops.reshape(x, shape=shape)


@operator("Reshape", since=5)
def _reshape(x: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    return ops.reshape(x, shape=tuple(known_integers(shape, "the shape")), allow_zero=bool(allowzero))


operator("Flatten")(ops.flatten)
operator("Squeeze")(ops.squeeze)
operator("Unsqueeze")(ops.unsqueeze)


@operator("Squeeze", since=13)
def _squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    return x.squeeze(None if axes is None else known_integers(axes, "the list of axes"))


@operator("Unsqueeze", since=13)
def _unsqueeze(x: Tensor, axes: Tensor) -> Tensor:
    return ops.unsqueeze(x, axes=tuple(known_integers(axes, "the list of axes")))


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
