"""A sort whose stages are all alike, so that a program holds one of them in a loop: Batcher's bitonic sorter with the
perfect shuffle (Stone, "Parallel Processing with the Perfect Shuffle", IEEE Transactions on Computers C-20, 1971).

A stage compares element i of the first half with element i of the second half, exchanges the two if they are in the
wrong order, and interleaves the halves. For 2^q elements:

    a stage moves the highest bit of every element's number to the lowest place
    q stages are a pass, after which every number is as before
    pass p merges runs of 2^(p-1) elements to runs of 2^p; those whose bit p is 1 run downwards
    pass p compares in its last p stages, and only interleaves in those before

Short runs are ordered by counting, without exchanges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.lazy.order_keys import Keys, choose, is_less

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""

_RUN_BITS = 4
"""log₂ of the elements of a run that is ordered by counting. Counting compares each key with 16, and takes as long as
the four passes that it replaces, of some 40 stages, on a Zen 4."""
_MOST_COUNTED = 32
"""Elements of an axis that are ordered by counting as a whole."""


def sorted_size(size: int) -> int:
    """The least number of keys from `size` on that can be sorted: a power of two where there are many."""
    return size if size <= _MOST_COUNTED else 1 << (size - 1).bit_length()


def steps_to_sort(size: int) -> int:
    """How often a sort of `size` keys reads and writes all of them."""
    return 1 if size <= _MOST_COUNTED else 1 + len(_stages((size - 1).bit_length()))


def sort_keys(keys: Keys) -> Keys:
    """Keys [a, n, b], no two of them equal along axis 1, in ascending order along axis 1; n is a `sorted_size`."""
    a, n, b = keys[0].shape
    if n <= _MOST_COUNTED:
        return tuple([key.squeeze(1) for key in _by_counting(tuple([key.unsqueeze(1) for key in keys]))])
    bits = n.bit_length() - 1
    runs = tuple([key.reshape(a, -1, 1 << _RUN_BITS, b) for key in keys])
    ordered = tuple([key.reshape(a, n, b) for key in _by_counting(runs)])
    result: Keys = keys[0]._loop(_stage, ordered, keys[0]._constant(_stages(bits)))[0]
    return result


def _stage(keys: Keys, stage: Tensor) -> tuple[Keys, None]:
    a, n, b = keys[0].shape
    upper, lower = tuple([key[:, : n // 2, None] for key in keys]), tuple([key[:, n // 2 :, None] for key in keys])
    falls = ((keys[0]._positions((n // 2, 1, 1), 0, "i32") >> stage[0]) & 1) == 1
    exchange = (is_less(lower, upper) ^ falls) & (stage[1] == 1)
    is_odd = keys[0]._positions((2, 1), 0, "i32") == 1
    return tuple([key.reshape(a, n, b) for key in choose(exchange ^ is_odd, lower, upper)]), None


def _stages(bits: int) -> np.ndarray:
    """Of every stage: which bit of an element's number is the direction of its run, and whether the stage compares. The
    only run of the last pass rises: bit 31 is 0."""
    stages = [
        ((merged + stage) % bits if merged < bits else 31, stage >= bits - merged)
        for merged in range(_RUN_BITS + 1, bits + 1)
        for stage in range(bits)
    ]
    return np.array(stages, np.int32)


def _by_counting(runs: Keys) -> Keys:
    """Runs [a, m, n, b] of keys in order along axis 2, those with an odd number along axis 1 downwards. The place of a
    key is the number of keys before it."""
    _, count, size, _ = runs[0].shape
    others, ones = tuple([key.unsqueeze(2) for key in runs]), tuple([key.unsqueeze(3) for key in runs])
    place = is_less(others, ones).sum(3, dtype="i32")
    falls = runs[0]._positions((count, 1, 1), 0, "i32") % 2 == 1
    place = place._choose(falls, size - 1 - place, place) if count > 1 else place
    chosen = place.unsqueeze(2) == runs[0]._positions((size, 1, 1), 0, "i32")
    return tuple([key._choose(chosen, key.unsqueeze(2), 0).sum(3, dtype=key.dtype) for key in runs])
