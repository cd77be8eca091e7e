"""The positions of the first elements of an order along an axis."""

from __future__ import annotations

import math
from typing import Any

from eqsat.lazy.order_keys import Keys, is_less, positions_of, unique_keys
from eqsat.lazy.shuffle_sort import sort_keys, sorted_size, steps_to_sort

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""

_COLUMNS = 16
"""Columns from which on vectors hold neighbouring columns, and else neighbours of one column: the lanes of AVX-512."""


def first_positions(x: Tensor, axis: int, count: int, descending: bool) -> Tensor:
    """The positions (i64) of the first `count` elements along an axis in a stable order. NaN is greater than all
    numbers, and −0 equals 0.

    A few elements are found one after the other, `count` passes over the axis; else all are sorted.
    """
    size, before, after = x.shape[axis], math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    result = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    if not before * count * after:
        return x[(slice(None),) * axis + (slice(count),)].cast("i64")
    if count <= steps_to_sort(size):
        keys = unique_keys(x.reshape(before, size, after), descending, size)
        return positions_of(_least(keys, count), size).swapaxes(0, 1).reshape(result)
    last = x.ndim - 1
    if after >= _COLUMNS:
        return _first_of_sorted(x.reshape(before, size, after), count, descending).reshape(result)
    if before * after >= _COLUMNS:
        columns = x.swapaxes(0, axis)
        first = _first_of_sorted(columns.reshape(1, size, -1), count, descending)
        return first.reshape(count, *columns.shape[1:]).swapaxes(0, axis)
    rows = x.swapaxes(axis, last)
    first = _first_of_sorted(rows.reshape(-1, size, 1), count, descending)
    return first.reshape(*rows.shape[:-1], count).swapaxes(axis, last)


def _first_of_sorted(x: Tensor, count: int, descending: bool) -> Tensor:
    """The positions [a, count, b] of the first elements of x [a, n, b]."""
    size = sorted_size(x.shape[1])
    ordered = sort_keys(unique_keys(x, descending, size))
    return positions_of(tuple([key[:, :count] for key in ordered]), size)


def _least(keys: Keys, count: int) -> Keys:
    """The least keys [count, a, b] of [a, n, b] in order: every one is the least that is not below a bound, and its
    successor is the next bound."""

    def step(bound: Keys, _: None) -> tuple[Keys, Keys]:
        stays, least = ~is_less(keys, tuple([key.unsqueeze(1) for key in bound])), []
        for key in keys:
            least.append(key._choose(stays, key, int(key.dtype.highest)).amin(1))
            stays = stays & (key == least[-1].unsqueeze(1))
        return (*least[:-1], least[-1] + 1), tuple(least)

    one = (keys[0].shape[0], keys[0].shape[2])
    lowest = tuple([key._constant(int(key.dtype.lowest), key.dtype).expand(one) for key in keys])
    result: Keys = keys[0]._loop(step, lowest, length=count)[1]
    return result
