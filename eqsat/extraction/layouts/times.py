"""What a kernel takes with its buffers in every combination of their orders, from pricing few of them.

A kernel of many operands, as one that reads a concatenation is, has too many combinations to price each. Its operands
are walked apart from one another, each along the order of what is written: so the time is priced where all buffers are
in their first order, in their second and so on, and where one operand differs from that. Elsewhere the differences are
added up. What is chosen by such an estimate is priced, too, before it is believed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Combination = tuple[int, ...]
"""A label per buffer."""


class Times:
    """The times of one kernel, in ns.

    Args:
        counts: how many labels each of its buffers has, those that it reads first.
        reads: how many it reads.
        time: that of a combination; infinite where there is no such kernel.
    """

    def __init__(self, counts: Sequence[int], reads: int, time: Callable[[Combination], float]) -> None:
        self._counts, self._reads, self._time = tuple(counts), reads, time
        self._known: dict[Combination, float] = {}
        self.table: NDArray[np.float64] = np.empty(self._counts)
        for written in itertools.product(*map(range, self._counts[reads:])):
            self.table[(slice(None),) * reads + written] = self._over_reads(written)
        self._believe()

    def learn(self, combination: Combination) -> bool:
        """Price a combination; whether that was not known yet."""
        if combination in self._known:
            return False
        self.table[combination] = self._exact(combination)
        return True

    def only_known(self) -> NDArray[np.float64]:
        """The table without its estimates."""
        found = np.full(self._counts, np.inf)
        for combination, time in self._known.items():
            found[combination] = time
        return found

    def _over_reads(self, written: Combination) -> NDArray[np.float64]:
        """The times over the labels of what is read: from the nearest of those that agree, its differences added up."""
        counts = self._counts[: self._reads]
        best = np.full(counts, np.inf)
        nearest = np.full(counts, self._reads + 1)
        for label in range(max(self._counts, default=1)):
            agreed = tuple(min(label, count - 1) for count in counts)
            base = self._exact((*agreed, *written))
            if written and label not in written:
                continue
            total, distance = np.full(counts, base), np.zeros(counts, np.intp)
            for place, count in enumerate(counts):
                others = [(*agreed[:place], each, *agreed[place + 1 :], *written) for each in range(count)]
                shape = [count if axis == place else 1 for axis in range(self._reads)]
                times = np.array([self._exact(each) for each in others]).reshape(shape)
                total = total + (times - base if np.isfinite(base) else 0.0)
                distance = distance + (np.arange(count) != agreed[place]).reshape(shape)
            best = np.where(distance < nearest, total, best)
            nearest = np.minimum(nearest, distance)
        return best

    def _believe(self) -> None:
        """No estimate is better than the best that is known."""
        np.maximum(self.table, min(self._known.values()), out=self.table)
        for combination, time in self._known.items():
            self.table[combination] = time

    def _exact(self, combination: Combination) -> float:
        if combination not in self._known:
            self._known[combination] = self._time(combination)
        return self._known[combination]
