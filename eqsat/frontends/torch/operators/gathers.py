"""Lookups by computed positions."""

from __future__ import annotations

import math
from typing import NamedTuple

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import STAGE, axis_in
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.tensor import Tensor, constant, full, where
from ir.diagnostics import Kind, fail

Indices = list[Tensor | None]


class Places(NamedTuple):
    """What advanced indexing reads. order: the axes of x, indexed ones first. rows: the number of their elements.
    flat: row-major positions among the rows, i64, with the shape of all indices together. front: where the axes of
    `flat` stand in the result."""

    order: list[int]
    rows: int
    flat: Tensor
    front: int


def places_of(x: Tensor, indices: Indices) -> Places:
    """The places that a list of index tensors selects; None in the list selects a whole axis. The axes of the result
    stand where the first index stands, or in front if None stands between two indices.

    Raises:
        EqsatError: UnsupportedOp for an index of bools, because the values would decide the shape.
    """
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype.is_bool for index in given):
        message = "an index of bools selects a number of elements that depends on data"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, shapes=[list(x.shape)], hint="where(condition, a, b)")
    shape = broadcast_shape("index", *(index.shape for index in given))
    flat = constant(0, "i64").expand(shape)
    for axis, index in zip(axes, given, strict=True):
        flat = flat * x.shape[axis] + from_start(index, x.shape[axis]).expand(shape)
    together = axes == list(range(axes[0], axes[-1] + 1))
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    rows = math.prod(x.shape[axis] for axis in axes)
    return Places([*axes, *rest], rows, flat, axes[0] if together else 0)


def from_start(index: Tensor, size: int) -> Tensor:
    """Positions counted from the start of an axis of this size, i64; negative ones count from its end."""
    wide = index.cast("i64")
    return where(wide < 0, wide + size, wide) if index.dtype.is_signed else wide


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(x: Tensor, indices: Indices) -> Tensor:
    if all(index is None for index in indices):
        return x
    places = places_of(x, indices)
    rest = [x.shape[axis] for axis in places.order[x.ndim - _rest_rank(x, indices) :]]
    rows = x.permute(places.order).reshape(places.rows, *rest)
    at = places.flat.reshape(places.flat.size, *(1 for _ in rest)).expand(places.flat.size, *rest)
    found = rows.gather(0, at).reshape(*places.flat.shape, *rest)
    lead = places.flat.ndim
    order = [*range(lead, lead + places.front), *range(lead), *range(lead + places.front, found.ndim)]
    return found.permute(order)


def _rest_rank(x: Tensor, indices: Indices) -> int:
    return x.ndim - sum(index is not None for index in indices)


@aten("index_put", "_unsafe_index_put")
def _index_put(x: Tensor, indices: Indices, values: Tensor, accumulate: bool) -> Tensor:
    """x with `values` at the places of the indices, or added there."""
    if len([index for index in indices if index is not None]) == 1:
        (mask,) = (index for index in indices if index is not None)
        if mask.dtype.is_bool and values.size == 1 and indices[0] is mask and mask.shape == x.shape[: mask.ndim]:
            filler = values.cast(x.dtype).reshape(()) + (x if accumulate else 0)
            return where(mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)), filler, x).cast(x.dtype)
    places = places_of(x, indices)
    count, lead = places.flat.size, places.flat.ndim
    rest = [x.shape[axis] for axis in places.order[x.ndim - _rest_rank(x, indices) :]]
    ordered = x.permute(places.order)
    spread = values.cast(x.dtype).expand(*rest[: places.front], *places.flat.shape, *rest[places.front :])
    middle = range(places.front, places.front + lead)
    updates = spread.permute(*middle, *(axis for axis in range(spread.ndim) if axis not in middle))
    at = places.flat.reshape(count, *(1 for _ in rest)).expand(count, *rest)
    rows = ordered.reshape(places.rows, *rest)
    found = rows.scatter(0, at, updates.reshape(count, *rest), "add" if accumulate else "none")
    back = [places.order.index(axis) for axis in range(x.ndim)]
    return found.reshape(ordered.shape).permute(back)


@aten("gather")
def _gather(x: Tensor, axis: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    if not x.ndim:
        return x.expand(index.shape)
    place = axis_in(axis, x.shape)
    part = tuple(slice(None) if along == place else slice(0, size) for along, size in enumerate(index.shape))
    return x[part].gather(place, index)


@aten("index_select")
def _index_select(x: Tensor, axis: int, index: Tensor) -> Tensor:
    return x.take(index.flatten(), axis) if x.ndim else x


@aten("embedding")
def _embedding(weight: Tensor, index: Tensor, *_: object) -> Tensor:
    return weight.take(index, 0)


@aten("embedding_dense_backward")
def _embedding_gradient(gradient: Tensor, index: Tensor, rows: int, padding: int, by_frequency: bool) -> Tensor:
    """Each gradient is added to the row that its index read; the row `padding` gets none."""
    if by_frequency:
        fail(Kind.UNSUPPORTED_OP, STAGE, "scale_grad_by_freq=True is not supported", op="embedding_dense_backward")
    width = gradient.shape[-1]
    flat = index.cast("i64").reshape(index.size, 1)
    at = where(flat == padding, -1, flat) if padding >= 0 else flat
    zeros = full((rows, width), 0, gradient.dtype)
    return zeros.scatter(0, at.expand(index.size, width), gradient.reshape(index.size, width), "add")
