"""A stable order of many elements: a radix sort of one bit a step (Knuth, The Art of Computer Programming 3, 5.2.5).

A step moves the elements whose bit is 0 before those whose bit is 1, and keeps the order within both. The first step
takes the lowest bit. So the work grows with the number of elements and of bits, and the program is one loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.dtype import DTYPES

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""


def sorted_positions(rows: Tensor, descending: bool = False) -> Tensor:
    """The positions (i64) of the elements of `rows` [..., n] in order along the last axis. Of equal elements the first
    one comes first. NaN is greater than all numbers, and −0 equals 0."""
    keys, along = _keys(rows), rows.ndim - 1
    positions = rows._positions(rows.shape, along)

    def step(carry: tuple[Tensor, Tensor], place: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        before, ordered = carry
        bit = (before >> place) & 1
        ones = bit.cast("i64").cumsum(along)
        zeros = ones.shape[along] - ones[..., -1:]
        to = rows._choose(bit == 1, zeros + ones - 1, positions - ones)
        return (before.scatter(along, to, before), ordered.scatter(along, to, ordered)), None

    bits = 1 if rows.dtype.is_bool else rows.dtype.bits
    places = rows._constant(np.arange(bits, dtype=keys.dtype.numpy))
    (_, order), _ = rows._loop(step, (~keys if descending else keys, positions), places)
    return order


def _keys(x: Tensor) -> Tensor:
    """Unsigned integers in the order of the elements."""
    if x.dtype.is_bool:
        return x.cast("u8")
    word = DTYPES[f"u{x.dtype.bits}"]
    sign = 1 << (word.bits - 1)
    bits = x.bitcast(word)
    if not x.dtype.is_float:
        return bits ^ sign if x.dtype.is_signed else bits
    key = x._choose(bits >= sign, ~bits, bits ^ sign)  # the bits of a negative number grow with its size
    return x._choose(x != x, int(word.highest), x._choose(x == 0, sign, key))
