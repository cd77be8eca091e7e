"""The positions of the first elements of an order along an axis, and of the element of a rank."""

from __future__ import annotations

import math
from typing import Any

from eqsat.lazy.binary_search import count_before
from eqsat.lazy.least_keys import least_keys, least_keys_by_groups
from eqsat.lazy.order_costs import RowsToOrder
from eqsat.lazy.order_keys import dtype_of_counts, integers_in_order, positions_of, unique_keys
from eqsat.lazy.radix_sort import sorted_positions
from eqsat.lazy.rank_search import key_of_rank, position_of_rank
from eqsat.lazy.shuffle_sort import sort_keys, sorted_size

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""

_COLUMNS = 16
"""Columns from which on vectors hold neighbouring columns, and else neighbours of one column: the lanes of AVX-512."""


def first_positions(x: Tensor, axis: int, count: int, descending: bool) -> Tensor:
    """The positions (i64) of the first `count` elements along an axis in a stable order. NaN is greater than all
    numbers, and −0 equals 0.

    A few elements are found one after the other, some hundred by a search for the last of them; else all are sorted.
    """
    rows = _rows_of(x, axis)
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    result = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    if not rows.count * count:
        return x[(slice(None),) * axis + (slice(count),)].cast("i64")
    ways = {
        _by_passes: rows.passes(count),
        _by_groups: rows.groups(count),
        _by_search: rows.search_of_first(count),
        _by_exchanges: rows.exchanges(),
        _by_digits: rows.digits(),
    }
    way = min(ways, key=ways.__getitem__)
    if way not in (_by_exchanges, _by_digits) or after >= _COLUMNS:
        return way(x.reshape(before, rows.size, after), count, descending).reshape(result)
    if before * after >= _COLUMNS:
        columns = x.swapaxes(0, axis)
        first = way(columns.reshape(1, rows.size, -1), count, descending)
        return first.reshape(count, *columns.shape[1:]).swapaxes(0, axis)
    last = x.swapaxes(axis, x.ndim - 1)
    first = way(last.reshape(-1, rows.size, 1), count, descending)
    return first.reshape(*last.shape[:-1], count).swapaxes(axis, x.ndim - 1)


def element_at_rank(x: Tensor, axis: int, rank: Tensor | int, keepdims: bool) -> tuple[Tensor, Tensor]:
    """The element that has `rank` elements before it along an axis, and its position, i64; the first position of
    several equal elements. rank: one for all rows, or one per row, with size 1 along the axis. keepdims: the axis has
    size 1 in the results."""
    position = _position_at_rank(x, axis, rank)
    value = x.gather(axis, position)
    return (value, position) if keepdims else (value.squeeze(axis), position.squeeze(axis))


def _position_at_rank(x: Tensor, axis: int, rank: Tensor | int) -> Tensor:
    """The position of the element of a rank, with size 1 along the axis."""
    rows = _rows_of(x, axis)
    one = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    columns = x.reshape(math.prod(x.shape[:axis]), rows.size, -1)
    keys = integers_in_order(columns)
    if isinstance(rank, type(x)):
        rank = rank.expand(one).reshape(keys.shape[0], 1, keys.shape[2])
    if rows.search() < rows.sort():
        key = key_of_rank(keys, rank)
    else:
        order = first_positions(columns, 1, rows.size, False)
        key = keys.gather(1, order[:, rank : rank + 1] if isinstance(rank, int) else order.gather(1, rank))
    positions = keys._choose(keys == key, keys._positions(keys.shape, 1, dtype_of_counts(rows.size)), rows.size)
    return positions.amin(1).cast("i64").reshape(one)


def _rows_of(x: Tensor, axis: int) -> RowsToOrder:
    return RowsToOrder(math.prod(x.shape[:axis]) * math.prod(x.shape[axis + 1 :]), x.shape[axis], x.dtype.bits)


def _by_passes(x: Tensor, count: int, descending: bool) -> Tensor:
    size = x.shape[1]
    return positions_of(least_keys(unique_keys(x, descending, size), count), size).swapaxes(0, 1)


def _by_groups(x: Tensor, count: int, descending: bool) -> Tensor:
    group = _rows_of(x, 1).group(count)
    size = -(-x.shape[1] // group) * group
    keys = unique_keys(x, descending, size)
    return positions_of(least_keys_by_groups(keys, count, group), size).swapaxes(0, 1)


def _by_search(x: Tensor, count: int, descending: bool) -> Tensor:
    """The last of the first elements is found by its rank; the elements before it, and those equal to it up to its
    position, are sorted."""
    key = integers_in_order(x)
    key = ~key if descending else key
    last = key_of_rank(key, count - 1)
    before, equal, counts = key < last, key == last, dtype_of_counts(x.shape[1])
    end = position_of_rank(equal, count - 1 - before.sum(1, keepdims=True, dtype=counts))
    taken = _positions_of_taken(before | (equal & (key._positions(key.shape, 1, counts) <= end)), count)
    return taken.gather(1, first_positions(x.gather(1, taken), 1, count, descending))


def _positions_of_taken(taken: Tensor, count: int) -> Tensor:
    """The positions [a, count, b] in ascending order of the elements that are taken, `count` in each row of bools
    [a, n, b]: by binary searches in the number of elements taken so far."""
    a, size, b = taken.shape
    counts = dtype_of_counts(size)
    so_far = taken.cast(counts).cumsum(1, dtype=counts)
    return count_before(so_far, taken._positions((a, count, b), 1, counts), 1, from_right=True)


def _by_exchanges(x: Tensor, count: int, descending: bool) -> Tensor:
    """The positions [a, count, b] of the first elements of x [a, n, b]."""
    size = sorted_size(x.shape[1])
    ordered = sort_keys(unique_keys(x, descending, size))
    return positions_of(tuple([key[:, :count] for key in ordered]), size)


def _by_digits(x: Tensor, count: int, descending: bool) -> Tensor:
    return sorted_positions(x, descending)[:, :count]
