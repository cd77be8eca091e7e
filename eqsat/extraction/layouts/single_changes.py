"""Single buffers in other orders, as long as that saves time: estimates may have hidden a better combination.

A buffer is tried where its kernels could save enough: a kernel can save at most the time that it loses to orders. All
combinations that are tried are priced (iterated conditional modes: J. Besag, "On the statistical analysis of dirty
pictures", 1986).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from eqsat.extraction.layouts.min_sum import Cost

_SHARE = 0.002
"""The share of the whole time that the kernels of a buffer must be able to save."""


class Priced(Protocol):
    """The times of one kernel over the labels of all buffers."""

    @property
    def least(self) -> float:
        """The ns of the kernel if it lost no time to orders."""

    def price(self, labels: Sequence[int]) -> float:
        """The ns of the kernel."""


def change_single_labels(
    labels: Sequence[int], counts: Sequence[int], near: Sequence[Sequence[Priced]], doubts: Sequence[Cost]
) -> list[int]:
    """The labels after changes of single ones that save time.

    Args:
        counts: how many labels each buffer has.
        near: per buffer, the kernels that read or write it.
        doubts: costs of one buffer each.
    """
    chosen = list(labels)
    doubt = [np.zeros(count) for count in counts]
    for one in doubts:
        (buffer,) = one.variables
        doubt[buffer] = doubt[buffer] + one.table

    def cost(buffer: int) -> float:
        return sum(kernel.price(chosen) for kernel in near[buffer]) + float(doubt[buffer][chosen[buffer]])

    kernels = {id(kernel): kernel for each in near for kernel in each}
    whole = sum(kernel.price(chosen) for kernel in kernels.values())
    pending = deque(range(len(chosen)))
    while pending:
        buffer = pending.popleft()
        lost = sum(kernel.price(chosen) - kernel.least for kernel in near[buffer])
        if lost < _SHARE * whole:
            continue
        before, first = cost(buffer), chosen[buffer]
        costs = {}
        for label in range(counts[buffer]):
            chosen[buffer] = label
            costs[label] = before if label == first else cost(buffer)
        chosen[buffer] = min(costs, key=lambda label: (costs[label], label != first))
        if chosen[buffer] != first:
            touched = {id(kernel) for kernel in near[buffer]}
            pending += [
                other
                for other, each in enumerate(near)
                if other != buffer and other not in pending and any(id(kernel) in touched for kernel in each)
            ]
    return chosen
