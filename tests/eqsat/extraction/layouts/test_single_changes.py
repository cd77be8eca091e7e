"""Changes of single orders after the search: made where they save time, among kernels that lose time to orders."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from eqsat.extraction.layouts.min_sum import Cost
from eqsat.extraction.layouts.single_changes import change_single_labels


class Kernel:
    """A kernel whose time is a function of the labels of some buffers."""

    def __init__(self, buffers: Sequence[int], time: Callable[..., float], least: float = 0.0) -> None:
        self.buffers, self.time, self.least = buffers, time, least
        self.asked: set[tuple[int, ...]] = set()

    def price(self, labels: Sequence[int]) -> float:
        own = tuple(labels[buffer] for buffer in self.buffers)
        self.asked.add(own)
        return self.time(*own)


def near(kernels: Sequence[Kernel], buffers: int) -> list[list[Kernel]]:
    return [[kernel for kernel in kernels if buffer in kernel.buffers] for buffer in range(buffers)]


def test_a_change_that_saves_time_is_made() -> None:
    kernels = [Kernel([0], lambda a: [5.0, 3.0, 4.0][a])]
    assert change_single_labels([0], [3], near(kernels, 1), []) == [1]


def test_changes_follow_one_another() -> None:
    """The second buffer saves time only after the first has changed."""
    kernels = [Kernel([0], lambda a: [2.0, 1.0][a]), Kernel([0, 1], lambda a, b: 3.0 if (a, b) == (1, 1) else 3.5)]
    for order in itertools.permutations(range(2)):
        named = [Kernel([order[buffer] for buffer in kernel.buffers], kernel.time) for kernel in kernels]
        assert change_single_labels([0, 0], [2, 2], near(named, 2), []) == [1, 1]


def test_equal_labels_stay() -> None:
    assert change_single_labels([1], [3], near([Kernel([0], lambda _: 1.0)], 1), []) == [1]


def test_a_change_must_gain_what_is_in_doubt() -> None:
    kernels = [Kernel([0], lambda a: [1.0, 0.95][a])]
    doubt = Cost((0,), np.array([0.0, 0.1]))
    assert change_single_labels([0], [2], near(kernels, 1), [doubt]) == [0]
    assert change_single_labels([0], [2], near(kernels, 1), []) == [1]


def test_kernels_that_lose_no_time_are_not_priced_again() -> None:
    kernel, slow = Kernel([0], lambda _: 1.0, least=1.0), Kernel([1], lambda a: [9.0, 8.0][a])
    assert change_single_labels([0, 0], [4, 2], near([kernel, slow], 2), []) == [0, 1]
    assert kernel.asked == {(0,)}


@pytest.mark.parametrize("seed", range(20))
def test_no_single_change_saves_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = [2, 3, 2, 3]
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    tables = [rng.integers(10, 1000, (counts[a], counts[b])) for a, b in pairs]
    kernels = [
        Kernel(pair, lambda a, b, table=table: float(table[a, b])) for pair, table in zip(pairs, tables, strict=True)
    ]
    first = [int(rng.integers(count)) for count in counts]

    def total(labels: Sequence[int]) -> float:
        return sum(kernel.price(labels) for kernel in kernels)

    chosen = change_single_labels(first, counts, near(kernels, 4), [])
    assert total(chosen) <= total(first)
    for buffer, count in enumerate(counts):
        for label in range(count):
            assert total([*chosen[:buffer], label, *chosen[buffer + 1 :]]) >= total(chosen)
