"""Covering a DAG of buffers with kernels: which kernels, so that every output is computed and the sum is least.

A column is one kernel that writes one buffer from others, as in technology mapping. A kernel that several
readers share is paid once, so the price of a buffer is that of the SET of kernels behind it. Extractors are
functions from a problem to a set of columns, by name in `EXTRACTORS`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

SETS = 8
"""How many sets of kernels the Pareto program keeps per buffer."""


@dataclass(frozen=True)
class Column:
    """A kernel that writes `writes` and reads `reads` (buffers that a kernel must compute) in `cost` ns."""

    writes: int
    reads: tuple[int, ...]
    cost: float


@dataclass(frozen=True)
class Problem:
    """The columns to choose from, and the buffers that must be computed."""

    columns: tuple[Column, ...]
    roots: tuple[int, ...]

    @cached_property
    def writers(self) -> Mapping[int, tuple[int, ...]]:
        """Buffer → the columns that write it."""
        found: dict[int, list[int]] = {}
        for index, column in enumerate(self.columns):
            found.setdefault(column.writes, []).append(index)
        return {buffer: tuple(indices) for buffer, indices in found.items()}

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The buffers below the roots, what is read before what reads it as far as there are no cycles."""
        order: dict[int, None] = {}
        entered: set[int] = set()
        stack = [(root, False) for root in reversed(self.roots)]
        while stack:
            buffer, done = stack.pop()
            if done:
                order[buffer] = None
            elif buffer not in entered:
                entered.add(buffer)
                stack.append((buffer, True))
                reads = [read for index in self.writers.get(buffer, ()) for read in self.columns[index].reads]
                stack.extend((read, False) for read in reversed(reads))
        return tuple(order)

    @cached_property
    def readers(self) -> Mapping[int, tuple[int, ...]]:
        """Buffer → the buffers that some column computes from it."""
        found: dict[int, dict[int, None]] = {}
        for column in self.columns:
            for read in column.reads:
                found.setdefault(read, {})[column.writes] = None
        return {buffer: tuple(readers) for buffer, readers in found.items()}


_Set = tuple[float, int]
"""A set of columns: the sum of their costs, and the set as bits."""

Extractor = Callable[[Problem], tuple[int, ...] | None]
"""Columns that compute every root, in an order in which they can run; None when there is no cover."""


def pareto(problem: Problem, sets: int = SETS) -> tuple[int, ...] | None:
    """A dynamic program over the sets of kernels behind each buffer, the best few kept, iterated until it rests."""
    program = _ParetoProgram(problem, sets)
    _to_fixpoint(problem, program.improve)
    found = program.together(problem.roots)
    return resolve(problem, members(found[0][1])) if found else None


def greedy(problem: Problem) -> tuple[int, ...] | None:
    """The same with one set per buffer."""
    return pareto(problem, sets=1)


def tree(problem: Problem) -> tuple[int, ...] | None:
    """The least sum along every path, as if no kernel were shared: what an e-graph's usual extractor does."""
    return resolve(problem, sorted(index for _, index in cheapest_writers(problem).values()))


def cheapest_writers(problem: Problem) -> dict[int, tuple[float, int]]:
    """Buffer → the least sum along every path to it, in ns, and the column that writes it there."""
    best: dict[int, tuple[float, int]] = {}

    def improve(buffer: int) -> bool:
        before = best.get(buffer)
        for index in problem.writers.get(buffer, ()):
            column = problem.columns[index]
            if all(read in best for read in column.reads):
                cost = column.cost + sum(best[read][0] for read in column.reads)
                if buffer not in best or (cost, index) < best[buffer]:
                    best[buffer] = (cost, index)
        return best.get(buffer) != before

    _to_fixpoint(problem, improve)
    return best


def shuffled(problem: Problem, rng: random.Random) -> tuple[int, ...] | None:
    """Any cover: every buffer takes a random column; where that closes a cycle, the least of random costs."""
    for _ in range(_TRIES):
        found = resolve(problem, [rng.choice(indices) for indices in problem.writers.values()])
        if found is not None:
            return found
    columns = tuple(Column(each.writes, each.reads, rng.expovariate(1.0)) for each in problem.columns)
    return tree(Problem(columns, problem.roots))


_TRIES = 16

EXTRACTORS: Mapping[str, Extractor] = {"pareto": pareto, "greedy": greedy, "tree": tree}


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
    return _schedule(problem, writer)


def _schedule(problem: Problem, writer: Mapping[int, int]) -> tuple[int, ...]:
    """The columns behind the roots, depth first: what is read runs just before what reads it."""
    order: dict[int, None] = {}
    stack = [(writer[root], False) for root in reversed(problem.roots)]
    while stack:
        index, done = stack.pop()
        if index in order:
            continue
        if done:
            order[index] = None
        else:
            stack.append((index, True))
            stack.extend((writer[read], False) for read in reversed(problem.columns[index].reads))
    return tuple(order)


def _to_fixpoint(problem: Problem, improve: Callable[[int], bool]) -> None:
    """Call `improve` on every buffer, and again on the readers of each that changed, until none changes."""
    place = {buffer: position for position, buffer in enumerate(problem.order)}
    queue = list(range(len(place)))
    queued = set(queue)
    while queue:
        position = heapq.heappop(queue)
        queued.discard(position)
        if improve(problem.order[position]):
            for reader in problem.readers.get(problem.order[position], ()):
                again = place.get(reader)
                if again is not None and again not in queued:
                    queued.add(again)
                    heapq.heappush(queue, again)


class _ParetoProgram:
    """Per buffer the cheapest sets of columns that compute it."""

    def __init__(self, problem: Problem, keep: int) -> None:
        self._problem, self._keep = problem, keep
        self._sets: dict[int, list[_Set]] = {}
        self._writes = {buffer: sum(1 << index for index in indices) for buffer, indices in problem.writers.items()}

    def improve(self, buffer: int) -> bool:
        """Combine what is known of the sources; whether the buffer's sets changed."""
        before = self._sets.get(buffer, [])
        found = {mask: cost for cost, mask in before}
        for index in self._problem.writers.get(buffer, ()):
            column = self._problem.columns[index]
            for cost, mask in self.together(column.reads, without=self._writes[buffer]):
                found.setdefault(mask | 1 << index, cost + column.cost)
        self._sets[buffer] = self._cheapest(found)
        return self._sets[buffer] != before

    def together(self, buffers: Sequence[int], without: int = 0) -> list[_Set]:
        """The cheapest unions of one set per buffer, with no column of `without`.

        Were costs additive, the K cheapest sums of two sorted lists would pair ranks with (i + 1)(j + 1) ≤ K.
        """
        unions: list[_Set] = [(0.0, 0)]
        for buffer in buffers:
            known = [each for each in self._sets.get(buffer, ()) if not each[1] & without]
            if len(unions) == 1 and unions[0][1] == 0:
                unions = known
                continue
            found: dict[int, float] = {}
            for rank, union in enumerate(unions):
                for other in known[: self._keep // (rank + 1)]:
                    cost, mask = self._join(union, other)
                    found.setdefault(mask, cost)
            unions = self._cheapest(found)
        return unions

    def _cheapest(self, found: Mapping[int, float]) -> list[_Set]:
        return sorted((cost, mask) for mask, cost in found.items())[: self._keep]

    def _join(self, a: _Set, b: _Set) -> _Set:
        more = b[1] & ~a[1]
        if not more:
            return a
        columns = self._problem.columns
        return a[0] + sum([columns[index].cost for index in members(more)]), a[1] | b[1]


def members(mask: int) -> list[int]:
    """The positions of the bits set."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
