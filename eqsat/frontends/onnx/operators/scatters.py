"""Updates of a tensor at computed positions. Of several updates at one position the last one counts, or all are
combined in order. A negative position counts from the end of its axis."""

from __future__ import annotations

import math
from typing import Literal

from eqsat import tensor
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.gathers import flat_positions, from_start
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor

Combination = Literal["none", "add", "mul", "max", "min"]


@operator("Scatter")
@operator("ScatterElements", since=11)
def _scatter_elements(
    x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: Combination = "none"
) -> Tensor:
    """result[index[i, j], j] = updates[i, j] for axis 0, else x."""
    place = axis_in(axis, x.shape)
    return x.scatter(place, from_start(index, x.shape[place]), updates, reduction)


@operator("ScatterND", since=11)
def _scatter_slices(x: Tensor, index: Tensor, updates: Tensor, *, reduction: Combination = "none") -> Tensor:
    """Slices of x at positions in its first axes: each vector along the last axis of `index` is one."""
    depth = index.shape[-1]
    places, rest = x.shape[:depth], x.shape[depth:]
    flat = flat_positions(index, places)
    for place, size in enumerate(places):
        along = from_start(index[..., place], size)
        flat = tensor.where((along >= 0) & (along < size), flat, -1)
    at = flat.reshape(flat.size, *(1 for _ in rest)).expand(flat.size, *rest)
    slices = x.reshape(math.prod(places), *rest)
    return slices.scatter(0, at, updates.reshape(flat.size, *rest), reduction).reshape(x.shape)


@operator("TensorScatter", since=24)
def _tensor_scatter(
    cache: Tensor,
    update: Tensor,
    starts: Tensor | None = None,
    *,
    axis: int = -2,
    mode: Literal["linear", "circular"] = "linear",
) -> Tensor:
    """The cache with the update from the position `starts` of each batch on; circular positions wrap around."""
    place = axis_in(axis, cache.shape)
    size, length = cache.shape[place], update.shape[place]
    start = tensor.constant(0, "i64") if starts is None else starts.cast("i64")
    first = start.reshape((starts.size if starts is not None else 1,) + (1,) * (cache.ndim - 1))
    place_in_update = tensor.iota(cache.shape, place, "i64") - first
    if mode == "circular":
        place_in_update = place_in_update % size
    written = (place_in_update >= 0) & (place_in_update < length)
    return tensor.where(written, update.gather(place, place_in_update.maximum(0).minimum(length - 1)), cache)
