"""Updates of a tensor at computed positions. Of several updates at one position the last one counts, or all are
combined in order.

A position looks for its updates: the work is positions · updates comparisons, deterministic and without atomics.
"""

from __future__ import annotations

import math
from typing import Literal

from eqsat import tensor
from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.gathers import flat_positions, from_start
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor

Combination = Literal["none", "add", "mul", "max", "min"]

_MOST_COMPARISONS = 2**28
"""Comparisons of a position with an update in one scatter."""


@operator("Scatter")
@operator("ScatterElements", since=11)
def _scatter_elements(
    x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: Combination = "none"
) -> Tensor:
    """result[index[i, j], j] = updates[i, j] for axis 0, else x."""
    place = axis_in(axis, x.shape)
    if not index.size:
        return x
    at = from_start(index, x.shape[place])
    off_axis = [(0, 0 if p == place else x.shape[p] - index.shape[p]) for p in range(x.ndim)]
    at, values = at.pad(off_axis, -1), updates.pad(off_axis)
    rows = x.swapaxes(place, -1)
    count, slots = at.shape[place], rows.shape[-1]
    outer = math.prod(rows.shape[:-1])
    combined = scatter_rows(
        rows.reshape(outer, slots, 1),
        at.swapaxes(place, -1).reshape(outer, count),
        values.swapaxes(place, -1).reshape(outer, count, 1),
        reduction,
    )
    return combined.reshape(rows.shape).swapaxes(place, -1)


@operator("ScatterND", since=11)
def _scatter_slices(x: Tensor, index: Tensor, updates: Tensor, *, reduction: Combination = "none") -> Tensor:
    """Slices of x at positions in its first axes: each vector along the last axis of `index` is one."""
    depth = index.shape[-1]
    slots, width = math.prod(x.shape[:depth]), math.prod(x.shape[depth:])
    flat = flat_positions(index, x.shape[:depth])
    combined = scatter_rows(
        x.reshape(1, slots, width), flat.reshape(1, flat.size), updates.reshape(1, flat.size, width), reduction
    )
    return combined.reshape(x.shape)


def scatter_rows(x: Tensor, at: Tensor, updates: Tensor, reduction: Combination) -> Tensor:
    """x [B, N, R] with the rows `updates` [B, K, R] at the positions `at` [B, K]; one outside changes nothing."""
    batch, slots, width = x.shape
    count = at.shape[1]
    if batch * slots * count > _MOST_COMPARISONS:
        refuse(f"a scatter of {count} updates to {slots} positions in {batch} rows: too many comparisons; it")
    if not count or not x.size:
        return x
    grid = (batch, slots, count)
    hits: Tensor = at.unsqueeze(1).expand(grid) == tensor.iota(grid, 1, "i64")
    if reduction == "none":
        last = tensor.where(hits, tensor.iota(grid, 2, "i64"), -1).max(-1)
        found = updates.gather(1, last.maximum(0).unsqueeze(-1).expand(batch, slots, width))
        return tensor.where((last >= 0).unsqueeze(-1), found, x)
    full = (batch, slots, width, count)
    values = updates.swapaxes(1, 2).unsqueeze(1).expand(full)
    hit = hits.unsqueeze(2)
    if reduction == "add":
        return x + tensor.where(hit, values, 0).sum(-1, dtype=x.dtype)
    if reduction == "mul":
        return x * tensor.where(hit, values, 1).prod(-1, dtype=x.dtype)
    if reduction == "max":
        return x.maximum(tensor.where(hit, values, tensor.constant(x.dtype.lowest, x.dtype)).max(-1))
    return x.minimum(tensor.where(hit, values, tensor.constant(x.dtype.highest, x.dtype)).min(-1))


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
