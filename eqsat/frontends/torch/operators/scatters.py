"""Updates of a tensor at computed positions along one axis. Of several updates at one position the last one counts, or
all are combined in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import in_dtype
from eqsat.lazy.argument_checks import Number, axis_in
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.tensor import Tensor, constant, full, where
from ir.dtype import i64

Put = Callable[[Tensor, int, Tensor, Tensor], Tensor]
"""From a tensor, an axis, an index and updates to the tensor with the updates at the positions of the index."""

_COMBINATIONS = {
    "add": "add",
    "sum": "add",
    "mean": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
}
"""torch's names of reductions, and the lazy tensors'. The mean is a sum first."""


@aten("scatter.src", "scatter.reduce")
def _scatter(x: Tensor, axis: int, index: Tensor, source: Tensor, *, reduce: str | None = None) -> Tensor:
    """x with the updates source[i, j] at [index[i, j], j] for axis 0; the source may be larger than the index."""
    put: Put = Tensor.scatter if reduce is None else partial(_combine, reduce=reduce)
    return _along(put, x, axis, index, source)


@aten("scatter.value", "scatter.value_reduce")
def _scatter_value(x: Tensor, axis: int, index: Tensor, value: Number, *, reduce: str | None = None) -> Tensor:
    source = in_dtype(value, x.dtype).expand(index.shape)
    return _scatter(x, axis, index, source, reduce=reduce)


@aten("scatter_add")
def _scatter_add(x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(add_at, x, axis, index, source)


@aten("scatter_reduce.two")
def _scatter_reduce(
    x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The elements combined with their updates; without `include_self`, elements with updates count for nothing
    themselves."""
    return _along(partial(combine_at, reduce=reduce, include_self=include_self), x, axis, index, source)


@aten("index_add")
def _index_add(x: Tensor, axis: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """Slices of the source, times alpha, are added to the slices of x at the positions in the index."""
    scaled = source if alpha == 1 else (source * alpha).cast(x.dtype)
    return _along_slices(add_at, x, axis, index, scaled)


@aten("index_copy")
def _index_copy(x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    return _along_slices(Tensor.scatter, x, axis, index, source)


@aten("index_reduce")
def _index_reduce(
    x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    return _along_slices(partial(combine_at, reduce=reduce, include_self=include_self), x, axis, index, source)


def combine_at(x: Tensor, axis: int, index: Tensor, updates: Tensor, reduce: str, include_self: bool) -> Tensor:
    """`scatter_reduce` for an index that is no larger than x off the axis, and updates of its shape."""
    hits = full(x.shape, 0, i64).scatter(axis, index, constant(1, i64).expand(index.shape), "add")
    start = x if include_self else where(hits > 0, _neutral(x, reduce), x).cast(x.dtype)
    total = _combine(start, axis, index, updates, reduce)
    if reduce != "mean":
        return total
    count = (hits + 1 if include_self else where(hits > 0, hits, 1)).cast(x.dtype)
    mean: Tensor = total / count if x.dtype.is_float else total // count
    return where(hits > 0, mean, total).cast(x.dtype)


def _combine(x: Tensor, axis: int, index: Tensor, updates: Tensor, reduce: str) -> Tensor:
    """The elements combined with their updates; bools as 0 and 1."""
    if x.dtype.is_bool:
        return x.cast(i64).scatter(axis, index, updates.cast(i64), _COMBINATIONS[reduce]).cast(x.dtype)
    return x.scatter(axis, index, updates, _COMBINATIONS[reduce])


add_at: Put = partial(_combine, reduce="add")
"""x with the updates added at positions along the axis. A sum of bools is true where an update is."""


def _neutral(x: Tensor, reduce: str) -> Tensor:
    values = {"sum": 0, "mean": 0, "prod": 1, "amax": x.dtype.lowest, "amin": x.dtype.highest}
    return constant(values[reduce], x.dtype)


@aten("put")
def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """x with the source at positions in the flattened tensor; negative ones count from the end."""
    if not index.size:
        return x
    at = where(index < 0, index + x.size, index).flatten()
    flat, updates = x.flatten(), source.cast(x.dtype).flatten()
    return (add_at(flat, 0, at, updates) if accumulate else flat.scatter(0, at, updates)).reshape(x.shape)


@aten("masked_scatter")
def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """x with the elements of the source, in their order, where the mask is true."""
    shape = broadcast_shape("masked_scatter", x.shape, mask.shape)
    chosen, x = mask.cast("bool").expand(shape), x.expand(shape)
    if not x.size or not source.size:
        return x
    number = (chosen.flatten().cast(i64).cumsum(0) - 1).maximum(0).minimum(source.size - 1)
    return where(chosen, source.flatten().gather(0, number).reshape(x.shape), x)


@aten("masked_scatter_backward")
def _masked_scatter_gradient(gradient: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """The gradient of the source: elements under the mask, in their order, then zeros."""
    chosen, source = mask.cast("bool").expand(gradient.shape).flatten(), full((math.prod(sizes),), 0, gradient.dtype)
    if not gradient.size or not source.size:
        return source.reshape(sizes)
    number = where(chosen, chosen.cast(i64).cumsum(0) - 1, source.size)  # what is written beyond the end vanishes
    return source.scatter(0, number, gradient.flatten(), "add").reshape(sizes)


def _along(put: Put, x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    """put(x, axis, index, the part of the source that the index reaches), for tensors of any rank."""
    if not index.size:
        return x
    if not x.ndim:
        return put(x.reshape(1), 0, index.reshape(1), source.reshape(1).cast(x.dtype)).reshape(())
    if source.shape != index.shape:
        source = source[tuple(slice(0, size) for size in index.shape)] if source.ndim else source.expand(index.shape)
    return put(x, axis_in(axis, x.shape), index, source.cast(x.dtype))


def _along_slices(put: Put, x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    """put(x, axis, index, source) where the index has one position per slice of the source."""
    if not source.size:
        return x
    if not x.ndim:
        return put(x.reshape(1), 0, index.reshape(1), source.reshape(1).cast(x.dtype)).reshape(())
    place = axis_in(axis, x.shape)
    wide = index.reshape(index.size, *(1,) * (x.ndim - place - 1)).expand(source.shape)
    return put(x, place, wide, source.cast(x.dtype))
