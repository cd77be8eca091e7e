"""How near the rejected came: what a cover would cost with another kernel in one place."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from eqsat.extraction.choice import Choice
from eqsat.extraction.extractors.problem import Problem
from eqsat.extraction.extractors.tree import cheapest_writers
from eqsat.extraction.selection import Rival, Selection

NEAREST = 8
"""Rivals of one kernel that are priced and told of, besides those refused."""


class Swap(NamedTuple):
    """The columns that would join a cover, and what that adds to its cost in ns."""

    joining: tuple[int, ...]
    extra_ns: float


class Swaps:
    """Replaces one column of a cover: `chosen`, in an order in which they run."""

    def __init__(self, problem: Problem, chosen: Sequence[int]) -> None:
        self._columns = problem.columns
        self._writer = {self._columns[index].writes: index for index in chosen}
        self._place = {buffer: position for position, buffer in enumerate(self._writer)}
        self._readers = Counter(problem.roots)
        for index in chosen:
            self._readers.update(set(self._columns[index].reads))
        self._cheapest: Mapping[int, tuple[float, int]] = cheapest_writers(problem)

    def with_column(self, index: int) -> Swap | None:
        """The cover with this column in place of the one that writes the same buffer; None where it would read
        what is computed from its own result, or what nothing can compute."""
        joining = self._joining(index)
        if joining is None or self._reaches(joining, self._columns[index].writes):
            return None
        leaving = self._leaving(self._columns[index].writes, joining)
        cost = sum(self._columns[each].cost for each in joining) - sum(self._columns[each].cost for each in leaving)
        return Swap(joining, cost)

    def _joining(self, index: int) -> tuple[int, ...] | None:
        """The column, and the cheapest writers of what is not written."""
        found = {index: None}
        waiting = [index]
        while waiting:
            for read in self._columns[waiting.pop()].reads:
                if read in self._writer:
                    continue
                if read not in self._cheapest:
                    return None
                writer = self._cheapest[read][1]
                if writer not in found:
                    found[writer] = None
                    waiting.append(writer)
        return tuple(found)

    def _reaches(self, joining: Sequence[int], buffer: int) -> bool:
        """Whether something that these read is computed from the buffer: only what runs after it can be."""
        waiting = [read for index in joining for read in self._columns[index].reads]
        seen: set[int] = set()
        while waiting:
            read = waiting.pop()
            if read == buffer:
                return True
            if read not in seen and self._place.get(read, -1) > self._place[buffer]:
                seen.add(read)
                waiting.extend(self._columns[self._writer[read]].reads)
        return False

    def _leaving(self, buffer: int, joining: Sequence[int]) -> tuple[int, ...]:
        """The column that wrote the buffer, and those whose results nobody reads any more."""
        readers = Counter[int]()
        for index in joining:
            readers.update(set(self._columns[index].reads))
        found = {self._writer[buffer]: None}
        waiting = [self._writer[buffer]]
        while waiting:
            for read in set(self._columns[waiting.pop()].reads):
                readers[read] -= 1
                if self._readers[read] + readers[read] == 0:
                    found[self._writer[read]] = None
                    waiting.append(self._writer[read])
        return tuple(found)


class Contest:
    """The kernels of a cover against the other candidates for their outputs.

    Args:
        problem: every candidate that was not refused, `choices` in the order of its columns.
        picked: the cover, in an order in which it runs.
    """

    def __init__(self, problem: Problem, choices: Sequence[Choice], picked: Sequence[Choice]) -> None:
        self._choices = choices
        self._winners = [choice for choice in picked if not choice.compile_time]
        index = {choice: position for position, choice in enumerate(choices)}
        swaps = Swaps(problem, [index[choice] for choice in picked])
        self._ranked: dict[int, list[tuple[Choice, Swap | None]]] = {}
        for winner in self._winners:
            others = [each for each in problem.writers[winner.buffer] if choices[each] is not winner]
            found = [(choices[each], swaps.with_column(each)) for each in others]
            self._ranked[winner.buffer] = sorted(found, key=_distance)[:NEAREST]

    @property
    def nearest(self) -> list[Choice]:
        """The rivals that are to be told of, and the kernels that would compute what they read."""
        found: dict[Choice, None] = {}
        for ranked in self._ranked.values():
            for rival, swap in ranked:
                found |= dict.fromkeys([rival, *(self._choices[index] for index in (swap.joining if swap else ()))])
        return list(found)

    def selections(self, candidates: Mapping[int, Sequence[Choice]], names: Mapping[int, str]) -> dict[int, Selection]:
        """Per buffer that a kernel writes when the program runs; `candidates` are all of each buffer, those refused
        among them."""
        return {
            winner.buffer: Selection(
                len(candidates[winner.buffer]),
                (
                    *(_rival(rival, swap, names) for rival, swap in self._ranked[winner.buffer]),
                    *(_rival(each, None, names) for each in candidates[winner.buffer] if each.refusal),
                ),
            )
            for winner in self._winners
        }


def _distance(found: tuple[Choice, Swap | None]) -> float:
    return found[1].extra_ns if found[1] else math.inf


def _rival(choice: Choice, swap: Swap | None, names: Mapping[int, str]) -> Rival:
    assert choice.priced is not None
    return Rival(
        name=choice.priced.region.name,
        reads=tuple(names[buffer] for buffer in choice.tree.reads),
        time_ns=choice.price.time_ns if choice.price else None,
        extra_ns=swap.extra_ns if swap else None,
        refusal=choice.refusal.kind if choice.refusal else None,
        reason=choice.refusal.reason if choice.refusal else "",
    )
