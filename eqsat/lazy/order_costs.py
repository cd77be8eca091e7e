"""What the ways to order elements cost, so that the cheapest is taken.

The unit is an element that a pass of `least_keys` reads, 0.1 ns on two cores of a Zen 4. The factors are rounded from
times of 1 to 1000 rows of 8 to 50257 fp32 and i64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eqsat.lazy.order_keys import words_of_key
from eqsat.lazy.radix_sort import passes_to_sort
from eqsat.lazy.shuffle_sort import sorted_size, steps_to_sort

_STEP = 2000
"""A step of a loop, beside the elements that it reads."""


@dataclass(frozen=True)
class RowsToOrder:
    """Rows of `size` elements each; `bits` of an element."""

    count: int
    size: int
    bits: int

    @property
    def elements(self) -> int:
        """Of all rows."""
        return self.count * self.size

    def passes(self, taken: int) -> int:
        """The cost of `least_keys`."""
        return taken * (self._weight * self.elements + _STEP)

    def group(self, taken: int) -> int:
        """The size of a group for `least_keys_by_groups`: as many groups as there are elements in those taken."""
        return max(2, math.isqrt(self.size // taken))

    def groups(self, taken: int) -> int:
        """The cost of `least_keys_by_groups`."""
        group = self.group(taken)
        candidates = self.count * (self.size // group + taken * group)
        return 2 * self._words * self.elements + taken * (self._weight * candidates + 2 * _STEP)

    def search(self) -> int:
        """The cost of `key_of_rank`, whose passes read keys of an element's width."""
        return self.bits * (self.bits * self.elements // 160 + _STEP)

    def search_of_first(self, taken: int) -> int:
        """The cost of the first elements by `key_of_rank`: with searches for positions, and a sort of those taken."""
        positions = 6 * self.elements + 2 * self.size.bit_length() * _STEP + 400 * self.count * taken
        return self.search() + positions + RowsToOrder(self.count, taken, self.bits).sort()

    def sort(self) -> int:
        """The cost of the cheaper way to sort."""
        return min(self.exchanges(), self.digits())

    def digits(self) -> int:
        """The cost of a sort by digits, whose passes run six kernels."""
        return passes_to_sort(self.bits) * (30 * self.elements + 6 * _STEP)

    def exchanges(self) -> int:
        """The cost of a sort by exchanges, each of whose steps reads and writes."""
        return 2 * self._words * steps_to_sort(self.size) * (self.count * sorted_size(self.size) + _STEP)

    @property
    def _words(self) -> int:
        return words_of_key(self.bits, self.size)

    @property
    def _weight(self) -> int:
        """The cost of an element in a pass for the least key: a key of two integers takes two searches, one within the
        other."""
        return 1 if self._words == 1 else 4
