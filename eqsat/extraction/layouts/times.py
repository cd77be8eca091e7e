"""The time of a kernel with its buffers in every combination of their orders, from prices of few combinations.

A kernel is priced where all its buffers are in their first order, in their second and so on. The time of any other
combination is estimated: the nearest price, plus the differences that single buffers make. An unknown difference is
guessed to save the buffer's share of all that orders can save. A combination that an estimate chose is priced before it
is believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Combination = tuple[int, ...]
"""A label per buffer."""


class Times:
    """The times of one kernel, in ns.

    Args:
        counts: how many labels each of its buffers has.
        time: the ns of a combination, and the ns that it would take if no time were lost to orders; infinite where
            there is no such kernel.
    """

    def __init__(self, counts: Sequence[int], time: Callable[[Combination], tuple[float, float]]) -> None:
        self._counts, self._time = tuple(counts), time
        self._known: dict[Combination, float] = {}
        self.least = math.inf
        labels = range(max(self._counts, default=1))
        self._agreed = [tuple(min(label, count - 1) for count in self._counts) for label in labels]
        for combination in self._agreed:
            self._learn(combination)
        self.table = self._estimate()

    def learn(self, combination: Combination) -> bool:
        """Price the combinations that a time was estimated from, else the combination itself. Returns whether its time
        was an estimate."""
        if combination in self._known:
            return False
        base = min(self._agreed, key=lambda agreed: (_distance(agreed, combination), self._known[agreed]))
        steps = [_step(base, place, label) for place, label in enumerate(combination) if label != base[place]]
        for missing in [step for step in steps if step not in self._known] or [combination]:
            self._learn(missing)
        self.table = self._estimate()
        return True

    def price(self, combination: Combination) -> float:
        """The ns of a combination."""
        self._learn(combination)
        return self._known[combination]

    def only_known(self) -> NDArray[np.float64]:
        """The table without its estimates."""
        table = np.full(self._counts, np.inf)
        for combination, time in self._known.items():
            table[combination] = time
        return table

    def _estimate(self) -> NDArray[np.float64]:
        """The known times, and estimates from the nearest combinations that agree, from the best of several."""
        best = np.full(self._counts, np.inf)
        nearest = np.full(self._counts, len(self._counts) + 1)
        for agreed in self._agreed:
            total, distance = np.full(self._counts, self._known[agreed]), np.zeros(self._counts, np.intp)
            for place, count in enumerate(self._counts):
                shape = [count if axis == place else 1 for axis in range(len(self._counts))]
                total = total + np.array([self._difference(agreed, place, k) for k in range(count)]).reshape(shape)
                distance = distance + (np.arange(count) != agreed[place]).reshape(shape)
            best = np.where(distance < nearest, total, np.where(distance > nearest, best, np.minimum(best, total)))
            nearest = np.minimum(nearest, distance)
        np.maximum(best, self.least, out=best)
        for combination, time in self._known.items():
            best[combination] = time
        return best

    def _difference(self, agreed: Combination, place: int, label: int) -> float:
        """The ns that another label of one buffer adds."""
        base = self._known[agreed]
        if not math.isfinite(base):
            return 0.0
        known = self._known.get(_step(agreed, place, label))
        return (self.least - base) / len(self._counts) if known is None else known - base

    def _learn(self, combination: Combination) -> None:
        if combination not in self._known:
            self._known[combination], least = self._time(combination)
            self.least = min(self.least, least)


def _step(agreed: Combination, place: int, label: int) -> Combination:
    """The labels with another in one place."""
    return (*agreed[:place], label, *agreed[place + 1 :])


def _distance(a: Combination, b: Combination) -> int:
    """In how many places they differ."""
    return sum([x != y for x, y in zip(a, b, strict=True)])
