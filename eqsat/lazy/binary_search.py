"""Where values belong among ordered elements."""

from __future__ import annotations

from typing import Any

import numpy as np

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""


def count_before(ordered: Tensor, wanted: Tensor, axis: int, from_right: bool) -> Tensor:
    """How many elements along an axis, i64, stand before each value: those below it, and, from the right, those equal
    to it; all of them before a NaN. ordered: ascending along the axis, of size 1 at least. wanted: off the axis of the
    same shape; of any shape where `ordered` has one axis."""
    size = ordered.shape[axis]

    def step(count: Tensor, stride: Tensor) -> tuple[Tensor, None]:
        further = count + stride
        place = (further - 1).minimum(size - 1)
        element = ordered.gather(axis, place) if ordered.ndim > 1 else ordered[place]
        stands_before = element <= wanted if from_right else element < wanted
        return wanted._choose((further <= size) & (stands_before | (wanted != wanted)), further, count), None

    strides = wanted._constant(2 ** np.arange(size.bit_length())[::-1], "i64")
    return wanted._loop(step, wanted._constant(0, "i64").expand(wanted.shape), strides)[0]
