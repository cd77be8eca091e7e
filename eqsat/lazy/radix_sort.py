"""A sort of long rows by digits, the lowest first (Knuth, The Art of Computer Programming, volume 3, 5.2.5). A pass
moves keys to the order of one digit, and leaves keys of equal digits in the order that they have:

    place of a key = keys with a lower digit + keys of its digit in blocks before its own + those before it in its block

All passes are alike, so that a program holds one of them in a loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.lazy.order_keys import Keys, dtype_of_counts, position_bits, positions_of, unique_keys

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""

_DIGIT_BITS = 4
_BLOCK = 16
"""Keys whose digits are compared with each other. Longer digits or blocks compare more, and shorter ones make more
passes or more counts: with 5 bits or 32 keys, 1M fp32 take 1.1 to 1.25 times as long on a Zen 4."""


def passes_to_sort(bits: int) -> int:
    """How often a sort of elements of so many bits moves all of them."""
    return bits // _DIGIT_BITS


def sorted_positions(x: Tensor, descending: bool) -> Tensor:
    """The positions (i64) of the elements [a, n, b] in a stable order along axis 1."""
    size = x.shape[1]
    padded = -(-size // _BLOCK) * _BLOCK
    first, *rest = unique_keys(x, descending, padded)
    bits, lowest = x.dtype.bits, 0 if rest else position_bits(padded)
    # with its highest bit flipped, a signed integer is an unsigned one; the bits above it are not read
    keys = (first ^ (-1 << (lowest + bits - 1)), *rest)
    shifts = np.arange(lowest, lowest + bits, _DIGIT_BITS).astype(first.dtype.numpy)
    ordered, _ = x._loop(_pass, keys, x._constant(shifts))
    return positions_of(tuple([key[:, :size] for key in ordered]), padded)


def _pass(keys: Keys, shift: Tensor) -> tuple[Keys, None]:
    """The keys in the order of their digits from bit `shift` on."""
    place = _places(((keys[0] >> shift) & ((1 << _DIGIT_BITS) - 1)).cast(dtype_of_counts(keys[0].shape[1])))
    if len(keys) == 1:
        return (keys[0].scatter(1, place, keys[0]),), None
    # one scatter, in which one core combines a row's updates in order, and gathers, which all cores share
    positions = place._positions(place.shape, 1, place.dtype)
    order = place._constant(0, place.dtype).expand(place.shape).scatter(1, place, positions)
    return tuple([key.gather(1, order) for key in keys]), None


def _places(digits: Tensor) -> Tensor:
    """The places of keys in a stable order of their digits [a, n, b], in the digits' dtype."""
    (a, n, b), dtype = digits.shape, digits.dtype
    in_blocks = digits.reshape(a, n // _BLOCK, _BLOCK, b)
    each = digits._positions((1 << _DIGIT_BITS, 1, 1, 1), 0, dtype)
    counts = (in_blocks.unsqueeze(1) == each).sum(3, dtype=dtype).reshape(a, -1, b)
    before = counts.cumsum(1, dtype=dtype) - counts
    one, other = in_blocks.unsqueeze(3), in_blocks.unsqueeze(2)
    precedes = one._positions((_BLOCK, 1, 1), 0, dtype) < one._positions((_BLOCK, 1), 0, dtype)
    in_block = ((one == other) & precedes).sum(2, dtype=dtype).reshape(a, n, b)
    block = digits._positions((n, 1), 0, dtype) // _BLOCK
    return before.gather(1, digits * (n // _BLOCK) + block) + in_block
