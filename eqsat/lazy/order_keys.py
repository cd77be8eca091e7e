"""Integers in the order of elements, no two of them equal. A sort then moves integers alone, and is stable.

    fp32 [a, 1000, b]   3.5 at position 7 along axis 1   ->   i64   0x40600000 · 2¹⁰ + 7

The low bits are the position, so of equal elements the first one comes first. NaN is greater than all numbers, and
−0 equals 0. Where element and position do not fit in 64 bits, they are two integers, and the first one decides unless
two of them are equal.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ir.dtype import DTYPES, DType

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""
Keys: TypeAlias = "tuple[Tensor, ...]"
"""One or two tensors of signed integers, the deciding one first."""


def unique_keys(x: Tensor, descending: bool, size: int) -> Keys:
    """The keys of elements [a, n, b], padded along axis 1 to `size` keys, of which the added keys are the greatest."""
    key, missing = integers_in_order(x), size - x.shape[1]
    key = ~key if descending else key
    if missing:
        key = key.pad([(0, 0), (0, missing), (0, 0)], value=int(key.dtype.highest))
    if words_of_key(key.dtype.bits, size) == 2:
        return key, key._positions(key.shape, 1)
    word = DTYPES["i32" if key.dtype.bits + position_bits(size) <= 32 else "i64"]
    return ((key.cast(word) << position_bits(size)) | key._positions(key.shape, 1, word),)


def words_of_key(bits: int, size: int) -> int:
    """How many integers a key is, of an element of so many bits among `size`: one or two."""
    return 1 if bits + position_bits(size) <= 64 else 2


def positions_of(keys: Keys, size: int) -> Tensor:
    """The positions (i64) of the elements, from keys for `size` elements."""
    if len(keys) > 1:
        return keys[-1].cast("i64")
    return (keys[0] & ((1 << position_bits(size)) - 1)).cast("i64")


def is_less(x: Keys, y: Keys) -> Tensor:
    """Whether x comes before y."""
    (first, *rest), (other, *others) = x, y
    if not rest:
        return first < other
    return (first < other) | ((first == other) & is_less(tuple(rest), tuple(others)))


def choose(condition: Tensor, x: Keys, y: Keys) -> Keys:
    """x where the condition holds, else y."""
    return tuple([one._choose(condition, one, other) for one, other in zip(x, y, strict=True)])


def dtype_of_counts(size: int) -> str:
    """The dtype of positions along an axis, and of numbers of its elements."""
    return "i32" if size < 1 << 31 else "i64"


def position_bits(size: int) -> int:
    """The low bits of a key that is one integer: those of a position among `size`."""
    return max(0, size - 1).bit_length()


def integers_in_order(x: Tensor) -> Tensor:
    """Signed integers in the order of the elements, as wide as these; those of equal elements are equal."""
    if x.dtype.is_bool:
        return x.cast("i8")
    word: DType = DTYPES[f"i{x.dtype.bits}"]
    bits = x.bitcast(word)
    if not x.dtype.is_float:
        return bits if x.dtype.is_signed else bits ^ int(word.lowest)
    magnitude = bits & int(word.highest)
    key = x._choose(bits < 0, -magnitude, bits)
    return x._choose(x != x, int(word.highest), key)
