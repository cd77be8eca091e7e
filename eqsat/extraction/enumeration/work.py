"""The values that kernels compute, as sets of bits: alternatives are many, long, and share most of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

_CHUNK = 512


class ValueWork(NamedTuple):
    """Distinct values by number.

    bits   (flops of one value, number // chunk) → the values in that chunk, a bit each
    flops  of all values together
    size   the number of values
    """

    bits: Mapping[tuple[int, int], int]
    flops: int
    size: int

    def plus(self, number: int, flops: int) -> ValueWork:
        """With one more value, which is not in yet."""
        key = flops, number // _CHUNK
        bits = {**self.bits, key: self.bits.get(key, 0) | 1 << number % _CHUNK}
        return ValueWork(bits, self.flops + flops, self.size + 1)


NOTHING = ValueWork({}, 0, 0)


def union(works: Iterable[ValueWork]) -> ValueWork:
    """The values of all, each once."""
    present = [work for work in works if work.size]
    if len(present) < 2:
        return present[0] if present else NOTHING
    bits = dict(present[0].bits)
    for work in present[1:]:
        for key, mask in work.bits.items():
            bits[key] = bits.get(key, 0) | mask
    flops = size = 0
    for (cost, _), mask in bits.items():
        alike = mask.bit_count()
        flops, size = flops + cost * alike, size + alike
    return ValueWork(bits, flops, size)
