"""Lookups by computed positions. A negative position counts from the end of its axis."""

from __future__ import annotations

import math

from eqsat import tensor
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor


def from_start(index: Tensor, size: int) -> Tensor:
    """The positions, i64, counted from the start of an axis of this size."""
    wide = index.cast("i64")
    return tensor.where(wide < 0, wide + size, wide)


@operator("Gather")
def _gather(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    """Whole slices along `axis`, in the shape of `index`."""
    return x.take(index, axis)


@operator("GatherElements", since=11)
def _gather_elements(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    place = axis_in(axis, x.shape)
    return x.gather(place, from_start(index, x.shape[place]))


@operator("GatherND", since=11)
def _gather_slices(x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices of x at positions in its first axes after the batch: each vector along the last axis of `index` is one."""
    batch, depth = x.shape[:batch_dims], index.shape[-1]
    places, rest = x.shape[batch_dims : batch_dims + depth], x.shape[batch_dims + depth :]
    flat = flat_positions(index, places)
    count = math.prod(flat.shape[batch_dims:])
    rows = x.reshape(math.prod(batch), math.prod(places), math.prod(rest))
    at = flat.reshape(math.prod(batch), count, 1).expand(math.prod(batch), count, math.prod(rest))
    return rows.gather(1, at).reshape(*batch, *flat.shape[batch_dims:], *rest)


def flat_positions(index: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The row-major position in axes of these sizes, of each vector along the last axis of `index`."""
    flat = tensor.constant(0, "i64").expand(index.shape[:-1])
    for place, size in enumerate(sizes):
        flat = flat * size + from_start(index[..., place], size)
    return flat
