"""The key of a rank along an axis, by a binary search for its bits: each pass counts the keys below a bound, and moves
none of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.lazy.order_keys import dtype_of_counts

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""


def key_of_rank(keys: Tensor, rank: Tensor | int) -> Tensor:
    """The key [a, 1, b] that has `rank` keys before it in the order of keys [a, n, b], signed integers of which several
    may be equal. rank: at least 0 and less than n, the same for all or one per row."""
    word = keys.dtype
    strides = np.array([int(word.lowest), *(1 << bit for bit in reversed(range(word.bits - 1)))], word.numpy)
    return _search(keys, rank, int(word.lowest), strides)  # the sum of the lowest key and the first stride is 0


def position_of_rank(matches: Tensor, rank: Tensor | int) -> Tensor:
    """The position [a, 1, b] of the match that has `rank` matches before it. matches: bools [a, n, b]."""
    size = matches.shape[1]
    positions = matches._choose(matches, matches._positions(matches.shape, 1, dtype_of_counts(size)), size)
    strides = np.array([1 << bit for bit in reversed(range((size - 1).bit_length()))])
    return _search(positions, rank, 0, strides) if size > 1 else positions


def _search(keys: Tensor, rank: Tensor | int, lowest: int, strides: np.ndarray) -> Tensor:
    """The greatest bound that at most `rank` keys are below, from `lowest` on, in steps of these strides."""

    def step(bound: Tensor, stride: Tensor) -> tuple[Tensor, None]:
        higher = bound + stride
        below = (keys < higher).sum(1, keepdims=True, dtype=dtype_of_counts(keys.shape[1]))
        return keys._choose(below <= rank, higher, bound), None

    one = (keys.shape[0], 1, keys.shape[2])
    start = keys._constant(lowest, keys.dtype).expand(one)
    return keys._loop(step, start, keys._constant(strides, keys.dtype))[0]
