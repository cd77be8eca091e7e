"""Lookups by computed positions, and writes at such positions by `index_put`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.operators.scatters import add_at
from eqsat.lazy.argument_checks import axis_in
from eqsat.lazy.known_value import is_known, known_value
from eqsat.lazy.selection import IndexedElements, select, selected
from eqsat.nn.known_positions import elements_at, index_step
from eqsat.tensor import Tensor, full, iota, stack, where
from ir.diagnostics import Kind, fail
from ir.dtype import i64
from ir.frontend import STAGE


@aten("index_select")
def _index_select(x: Tensor, axis: int, index: Tensor) -> Tensor:
    if not x.ndim:
        return x
    return x.take(index.flatten(), axis_in(axis, x.shape))


@aten("gather")
def _gather(x: Tensor, axis: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """result[i, j] = x[index[i, j], j] for axis 0. An index without elements may have any shape."""
    if not index.size:
        return full(index.shape, 0, x.dtype)
    if not x.ndim or not index.ndim:
        return x.flatten().gather(0, index.flatten()).reshape(index.shape)
    return x.gather(axis, index)


@aten("take")
def _take(x: Tensor, index: Tensor) -> Tensor:
    return x.flatten().take(index, 0)


@aten("embedding")
def _embedding(
    weight: Tensor, index: Tensor, padding: int = -1, scale_by_frequency: bool = False, sparse: bool = False
) -> Tensor:
    return weight.take(index, 0)


def _select(x: Tensor, indices: Sequence[Tensor | None]) -> IndexedElements[Tensor]:
    """The selection of the indices, one per axis of x from the first on; None is no index.

    Raises:
        EqsatError: UnsupportedOp for bools, whose number of True decides the shape.
    """
    if any(index is not None and (index.dtype.is_bool or index.dtype.name == "u8") for index in indices):
        fail(Kind.UNSUPPORTED_OP, STAGE, "the shape depends on how many elements of a mask are True", hint="where")
    return select(x, indices)


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    if all(index is None for index in indices):
        return x
    known = _known_positions(x, indices)
    if known is None:
        return selected(x, _select(x, indices))
    for axis, positions in known.items():
        x = elements_at(x, axis, positions)
    return x


def _known_positions(x: Tensor, indices: Sequence[Tensor | None]) -> dict[int, np.ndarray] | None:
    """Axis → its positions, where neighbouring axes have one known index each that changes along its own axis of the
    result alone, as in images that torch enlarges; else None."""
    given = {axis: index for axis, index in enumerate(indices) if index is not None}
    axes, rank = list(given), len(given)
    if axes != list(range(axes[0], axes[0] + rank)) or max(index.ndim for index in given.values()) != rank:
        return None
    if not all(map(is_known, given.values())):
        return None
    known: dict[int, np.ndarray] = {}
    for place, (axis, index) in enumerate(given.items()):
        own = (1,) * place + (index.size,) + (1,) * (rank - 1 - place)
        if index.dtype.is_bool or index.dtype.name == "u8" or (1,) * (rank - index.ndim) + index.shape != own:
            return None
        positions = known_value(index, "an index", STAGE).reshape(-1).astype(np.int64)
        positions = np.where(positions < 0, positions + x.shape[axis], positions)
        if index_step(positions) is None or positions.min() < 0 or positions.max() >= x.shape[axis]:
            return None
        known[axis] = positions
    return known


@aten("index_put", "_unsafe_index_put")
def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """x with the values at the selected elements, or with their sums there."""
    mask = indices[0]
    if mask is not None and mask.dtype.is_bool and len(indices) == 1 and values.size == 1:
        return _put_by_mask(x, mask, values, accumulate)
    selection = _select(x, indices)
    rows, width = selection.rows_of(x), selection.width_in(x)
    count = selection.flat.size
    if not count * width:
        return x
    order = selection.order()
    shape = (*selection.flat.shape, *(x.shape[axis] for axis in selection.others))
    back = tuple(order.index(axis) for axis in range(len(order)))
    spread = values.cast(x.dtype).expand([shape[axis] for axis in order]).permute(back).reshape(count, width)
    at = selection.flat.reshape(count, 1).expand(count, width)
    written = add_at(rows, 0, at, spread) if accumulate else rows.scatter(0, at, spread)
    axes = (*selection.indexed, *selection.others)
    whole = written.reshape([x.shape[axis] for axis in axes])
    return whole.permute([axes.index(axis) for axis in range(x.ndim)])


def _put_by_mask(x: Tensor, mask: Tensor, value: Tensor, accumulate: bool) -> Tensor:
    chosen = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    put = value.cast(x.dtype).reshape(())
    return where(chosen, x + put if accumulate else put, x).cast(x.dtype)


@aten("embedding_renorm")
def _limit_norms(weight: Tensor, index: Tensor, greatest: float, order: float) -> Tensor:
    """The rows that the index names are scaled to the greatest norm, if theirs is greater."""
    rows = weight.shape[0]
    named = (index.flatten().unsqueeze(0) == iota((rows, 1), 0, index.dtype)).any(1, keepdims=True)
    wide = weight.cast(weight.dtype.accumulator)
    size = wide.norm(order, 1, keepdims=True)
    return where(named & (size > greatest), wide * (greatest / (size + 1e-7)), wide).cast(weight.dtype)


@aten("embedding_dense_backward")
def _embedding_gradient(gradient: Tensor, index: Tensor, rows: int, padding: int, by_frequency: bool) -> Tensor:
    """Adds every gradient to the row that its index read; the row `padding` gets none."""
    if by_frequency:
        fail(Kind.UNSUPPORTED_OP, STAGE, "scale_grad_by_freq=True is not supported", op="embedding_dense_backward")
    width = gradient.shape[-1]
    flat = index.cast("i64").reshape(index.size, 1)
    at = where(flat == padding, -1, flat) if padding >= 0 else flat
    zeros = full((rows, width), 0, gradient.dtype)
    return zeros.scatter(0, at.expand(index.size, width), gradient.reshape(index.size, width), "add")


@aten("nonzero_static")
def _places(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The positions [size, axes] of the first elements that are not 0, and rows of `fill_value` after them."""
    chosen = x.cast("bool").flatten()
    number = where(chosen, chosen.cast(i64).cumsum(0) - 1, -1) if x.size else chosen.cast(i64)
    flat = full((size,), -1, i64)
    if x.size and size:
        flat = flat.scatter(0, number, iota((x.size,), 0, i64))
    columns, rest = [], flat
    for length in reversed(x.shape):
        columns.append(where(flat < 0, fill_value, rest % max(length, 1)))
        rest = rest // max(length, 1)
    return stack(columns[::-1], 1) if columns else full((size, 0), 0, i64)
