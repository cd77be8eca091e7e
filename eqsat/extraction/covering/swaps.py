"""Covers with another column in one place: how near a rejected column came, and whether it is better."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eqsat.extraction.covering.agreement import find_dispute
from eqsat.extraction.covering.problem import Problem, resolve

LEAST_GAIN = 1e-9
"""A share of the cost: below it, sums differ by their order alone."""


class Swap(NamedTuple):
    """The columns that would enter a cover, and the ns that the swap adds to its cost."""

    entering: tuple[int, ...]
    extra_ns: float


class Swaps:
    """Swaps of one column of a cover; `writer` is the column of each buffer.

    Args:
        chosen: the cover, in an order in which it runs.
    """

    def __init__(self, problem: Problem, chosen: Sequence[int]) -> None:
        self._columns = problem.columns
        self.writer = {self._columns[index].writes: index for index in chosen}
        self._place = {buffer: position for position, buffer in enumerate(self.writer)}
        self._readers = Counter(problem.roots)
        for index in chosen:
            self._readers.update(set(self._columns[index].reads))
        self._cheapest = problem.cheapest_writers

    def with_column(self, index: int) -> Swap | None:
        """The swap of this column for the one that writes the same buffer; None where the column would read a value
        that is computed from its own result, or that nothing can compute."""
        entering = self._entering_columns(index)
        if entering is None or self._reaches(entering, self._columns[index].writes):
            return None
        leaving = self._leaving_columns(self._columns[index].writes, entering)
        cost = sum(self._columns[column].cost for column in entering) - sum(
            self._columns[column].cost for column in leaving
        )
        return Swap(entering, cost)

    def _entering_columns(self, index: int) -> tuple[int, ...] | None:
        """The column, and the cheapest writers of what is not written."""
        entering = {index: None}
        waiting = [index]
        while waiting:
            for read in self._columns[waiting.pop()].reads:
                if read in self.writer:
                    continue
                if read not in self._cheapest:
                    return None
                writer = self._cheapest[read][1]
                if writer not in entering:
                    entering[writer] = None
                    waiting.append(writer)
        return tuple(entering)

    def _reaches(self, entering: Sequence[int], buffer: int) -> bool:
        """Whether something that these read is computed from the buffer: only what runs after it can be."""
        waiting = [read for index in entering for read in self._columns[index].reads]
        seen: set[int] = set()
        while waiting:
            read = waiting.pop()
            if read == buffer:
                return True
            if read not in seen and self._place.get(read, -1) > self._place[buffer]:
                seen.add(read)
                waiting.extend(self._columns[self.writer[read]].reads)
        return False

    def _leaving_columns(self, buffer: int, entering: Sequence[int]) -> tuple[int, ...]:
        """The column that wrote the buffer, and those whose results nobody reads any more."""
        readers = Counter[int]()
        for index in entering:
            readers.update(set(self._columns[index].reads))
        leaving = {self.writer[buffer]: None}
        waiting = [self.writer[buffer]]
        while waiting:
            for read in set(self._columns[waiting.pop()].reads):
                readers[read] -= 1
                if self._readers[read] + readers[read] == 0:
                    leaving[self.writer[read]] = None
                    waiting.append(self.writer[read])
        return tuple(leaving)


def refine(problem: Problem, chosen: Sequence[int]) -> tuple[int, ...]:
    """A cover with swaps made as long as one makes it cheaper: local search from `chosen`. A cover that computes every
    value in one way stays such a cover."""
    before: tuple[int, ...] = ()
    cover = tuple(chosen)
    while cover != before:
        before, least = cover, LEAST_GAIN * problem.cost_of(cover)
        cover = enter(problem, cover, range(len(problem.columns)), below_ns=-least)
    return cover


def enter(
    problem: Problem, chosen: Sequence[int], columns: Iterable[int], below_ns: float = math.inf
) -> tuple[int, ...]:
    """A cover after swaps of these columns in turn, of each whose swap adds less than `below_ns`. Where the cover
    computes every value in one way, columns stay outside with which it would compute a value in several ways."""
    cover = tuple(chosen)
    may_disagree = _disagrees(problem, cover)
    swaps = Swaps(problem, cover)
    for index in columns:
        writes = problem.columns[index].writes
        if swaps.writer.get(writes, index) != index:
            swap = swaps.with_column(index)
            if swap is not None and swap.extra_ns < below_ns:
                kept = [index for index in cover if problem.columns[index].writes != writes]
                other = swapped(problem, kept, swap)
                if may_disagree or not _disagrees(problem, other):
                    cover, swaps = other, Swaps(problem, other)
    return cover


def _disagrees(problem: Problem, chosen: Iterable[int]) -> bool:
    return find_dispute(problem.marks_of(chosen)) is not None


def swapped(problem: Problem, kept: Iterable[int], swap: Swap) -> tuple[int, ...]:
    """The cover after a swap. kept: the cover without the column in whose place another one enters."""
    cover = resolve(problem, [*kept, *swap.entering])
    assert cover is not None, "a swap closes no cycle"
    return cover
