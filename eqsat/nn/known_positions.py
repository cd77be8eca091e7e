"""Reads of elements at positions that are known when the program is built: by an index expression where one gives the
positions, else by a constant index tensor."""

from __future__ import annotations

import math

import numpy as np

from eqsat.tensor import Tensor, constant

_LARGEST_DIVISOR = 1024
"""`index_step` tries no divisor beyond it, so that a graph is built in milliseconds."""


def elements_at(x: Tensor, axis: int, positions: np.ndarray) -> Tensor:
    """x with the elements at these positions, from 0 on, in place of the axis."""
    return read_rows(x, axis, positions, 1).squeeze(axis + 1)


def read_rows(x: Tensor, axis: int, first: np.ndarray, width: int) -> Tensor:
    """x with the elements first[i] + j at (i, j) in place of the axis; any element stands for one outside."""
    size, length = x.shape[axis], len(first)
    step = index_step(first)
    if step is None or not length:
        index = np.clip(first[:, None] + np.arange(width), 0, size - 1)
        return x.take(constant(index), axis)
    slope, offset, divisor = step
    least, most = offset // divisor, (slope * (length - 1) + offset) // divisor + width - 1
    before, after = max(-least, 0), max(most - size + 1, 0)
    padded = x.pad([(before, after) if place == axis else (0, 0) for place in range(x.ndim)])
    expressions = [f"i{place + (place > axis)}" for place in range(x.ndim)]
    expressions[axis] = f"({slope}*i{axis} + {offset + before * divisor})//{divisor} + i{axis + 1}"
    shape = (*x.shape[:axis], length, width, *x.shape[axis + 1 :])
    return Tensor("VIEW", [padded], {"result_shape": shape, "index_map": expressions})


def index_step(index: np.ndarray) -> tuple[int, int, int] | None:
    """(a, b, c) with index[i] = ⌊(a·i + b) / c⌋ for all i, with the least c; None if no c up to `_LARGEST_DIVISOR`
    does."""
    count = len(index)
    if count < 2:
        return (0, int(index[0]), 1) if count else None
    growth = np.diff(index)
    if growth.min() < 0 or growth.max() - growth.min() > 1:
        return None
    rise, places = int(index[-1] - index[0]), np.arange(count)
    for divisor in range(1, min(_LARGEST_DIVISOR, 2 * count) + 1):
        least, most = (divisor * (rise + off) / (count - 1) for off in (-1, 1))
        for slope in range(max(math.ceil(least), 0), math.floor(most) + 1):
            offsets = divisor * index - slope * places
            offset = int(offsets.max())
            if offset < int(offsets.min()) + divisor:
                return slope, offset, divisor
    return None
