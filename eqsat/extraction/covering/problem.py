"""The covering problem: which kernels, so that every output is computed and the sum of their prices is least.

A column is one kernel that writes one buffer from others, as in technology mapping. A kernel that several readers
share is paid once, so the price of a buffer is that of the SET of kernels behind it. (Planning knows the problem as
that of a least delete-free plan: buffers are facts, columns are actions.)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from eqsat.extraction.fixpoint import to_fixpoint
from ir.post_order import post_order

Mark = tuple[int, int]
"""A value, and the way in which it is computed; the columns of one cover compute a value in one way."""

ALONE = -1
"""The way of a column that no other column shares: where one computes a value so, no other computes the value."""


class Column(NamedTuple):
    """A kernel that writes `writes` and reads `reads` (buffers that a kernel must compute) in `cost` ns."""

    writes: int
    reads: tuple[int, ...]
    cost: float
    marks: tuple[Mark, ...] = ()
    """No two alike."""


@dataclass(frozen=True)
class Problem:
    """The columns to choose from, and the buffers that must be computed."""

    columns: tuple[Column, ...]
    roots: tuple[int, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Worked out once: problems are looked up again and again."""
        return hash((self.columns, self.roots))

    @cached_property
    def writers(self) -> Mapping[int, tuple[int, ...]]:
        """Buffer → the columns that write it."""
        indices_of: dict[int, list[int]] = {}
        for index, column in enumerate(self.columns):
            indices_of.setdefault(column.writes, []).append(index)
        return {buffer: tuple(indices) for buffer, indices in indices_of.items()}

    @cached_property
    def reads(self) -> Mapping[int, Collection[int]]:
        """Buffer → the buffers from which some column computes it."""
        reads_of: dict[int, dict[int, None]] = {}
        for column in self.columns:
            reads = dict.fromkeys(column.reads)
            reads_of.setdefault(column.writes, reads).update(reads)
        return reads_of

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The buffers below the roots, what is read before what reads it as far as there are no cycles."""
        return tuple(post_order(self.roots, lambda buffer: self.reads.get(buffer, ())))

    @cached_property
    def readers(self) -> Mapping[int, Sequence[int]]:
        """Buffer → the buffers that some column computes from it."""
        readers_of: dict[int, list[int]] = {}
        for buffer, reads in self.reads.items():
            for read in reads:
                readers_of.setdefault(read, []).append(buffer)
        return readers_of

    @cached_property
    def computable(self) -> frozenset[int]:
        """The buffers below the roots that the columns can compute."""
        columns, writers = self.columns, self.writers
        known: set[int] = set()

        def improve(buffer: int) -> bool:
            if buffer in known or not any(known.issuperset(columns[index].reads) for index in writers.get(buffer, ())):
                return False
            known.add(buffer)
            return True

        to_fixpoint(self.order, self.readers, improve)
        return frozenset(known)

    @cached_property
    def cheapest_writers(self) -> Mapping[int, tuple[float, int]]:
        """Buffer → the least sum along every path to it, in ns, and the column that writes it there; the buffers that
        nothing can compute are missing."""
        best: dict[int, tuple[float, int]] = {}

        def improve(buffer: int) -> bool:
            before = best.get(buffer)
            for index in self.writers.get(buffer, ()):
                column = self.columns[index]
                if all(read in best for read in column.reads):
                    cost = column.cost + sum(best[read][0] for read in column.reads)
                    if (
                        buffer not in best or cost < best[buffer][0]
                    ):  # strictly: writers at no cost must not go in circles
                        best[buffer] = (cost, index)
            return best.get(buffer) != before

        to_fixpoint(self.order, self.readers, improve)
        return best

    def cost_of(self, columns: Iterable[int]) -> float:
        """The sum of their costs, in ns."""
        return sum(self.columns[index].cost for index in columns)

    def marks_of(self, columns: Iterable[int]) -> list[tuple[Mark, ...]]:
        """The marks of each of these columns."""
        return [self.columns[index].marks for index in columns]

    @cached_property
    def without_marks(self) -> Problem:
        """The problem where a value may be computed in any way, and in several."""
        if not any(column.marks for column in self.columns):
            return self
        return Problem(tuple(Column(column.writes, column.reads, column.cost) for column in self.columns), self.roots)

    def restrict(self, kept: Iterable[int]) -> Problem:
        """The problem with these columns only, in this order."""
        return Problem(tuple(self.columns[index] for index in kept), self.roots)


@dataclass(frozen=True)
class Covering:
    """What an extractor chose.

    columns  one writer of every buffer that is needed, in an order in which they can run
    bound    ns that no cover can cost less than, as far as the extractor has proven
    stopped  whether a limit ended the search before an optimum was proven
    """

    columns: tuple[int, ...]
    bound: float = 0.0
    stopped: bool = False


Extractor = Callable[[Problem], Covering | None]
"""Columns that compute every root; None when there is no cover."""


def resolve(problem: Problem, chosen: Iterable[int]) -> tuple[int, ...] | None:
    """One column per buffer out of `chosen`, only what the roots need, in an order in which they can run.

    Columns are taken as soon as all they read is computed, cheapest first, so the result has no cycles.
    """
    pending: dict[int, int] = {}
    waiting: dict[int, list[int]] = {}
    ready: list[tuple[float, int]] = []
    for index in chosen:
        reads = set(problem.columns[index].reads)
        pending[index] = len(reads)
        for read in reads:
            waiting.setdefault(read, []).append(index)
        if not reads:
            heapq.heappush(ready, (problem.columns[index].cost, index))
    writer: dict[int, int] = {}
    while ready:
        _, index = heapq.heappop(ready)
        buffer = problem.columns[index].writes
        if buffer in writer:
            continue
        writer[buffer] = index
        for reader in waiting.get(buffer, ()):
            pending[reader] -= 1
            if not pending[reader]:
                heapq.heappush(ready, (problem.columns[reader].cost, reader))
    if any(root not in writer for root in problem.roots):
        return None
    indices = post_order(
        [writer[root] for root in problem.roots], lambda index: [writer[read] for read in problem.columns[index].reads]
    )
    return tuple(indices)
