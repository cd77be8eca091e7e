"""How near the rejected came: what a cover would cost with another kernel in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from eqsat.extraction.candidate import KernelCandidate
from eqsat.extraction.extractors.problem import Problem
from eqsat.extraction.extractors.swaps import Swap, Swaps
from eqsat.extraction.selection import Rival, Selection

NEAREST = 8
"""Rivals of one kernel that are priced and told of, besides those refused."""


class Contest:
    """The kernels of a cover against the other candidates for their outputs.

    Args:
        problem: every candidate that was not refused, `candidates` in the order of its columns.
        picked: the cover, in an order in which it runs.
    """

    def __init__(
        self, problem: Problem, candidates: Sequence[KernelCandidate], picked: Sequence[KernelCandidate]
    ) -> None:
        self._candidates = candidates
        self._winners = [candidate for candidate in picked if not candidate.compile_time]
        index = {candidate: position for position, candidate in enumerate(candidates)}
        swaps = Swaps(problem, [index[candidate] for candidate in picked])
        self._ranked: dict[int, list[tuple[KernelCandidate, Swap | None]]] = {}
        for winner in self._winners:
            others = [each for each in problem.writers[winner.buffer] if candidates[each] is not winner]
            found = [(candidates[each], swaps.with_column(each)) for each in others]
            self._ranked[winner.buffer] = sorted(found, key=_distance)[:NEAREST]

    @property
    def nearest(self) -> list[KernelCandidate]:
        """The rivals that are to be told of, and the kernels that would compute what they read."""
        found: dict[KernelCandidate, None] = {}
        for ranked in self._ranked.values():
            for rival, swap in ranked:
                found |= dict.fromkeys([rival, *(self._candidates[index] for index in (swap.joining if swap else ()))])
        return list(found)

    def selections(
        self, candidates: Mapping[int, Sequence[KernelCandidate]], names: Mapping[int, str]
    ) -> dict[int, Selection]:
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


def _distance(found: tuple[KernelCandidate, Swap | None]) -> float:
    return found[1].extra_ns if found[1] else math.inf


def _rival(candidate: KernelCandidate, swap: Swap | None, names: Mapping[int, str]) -> Rival:
    assert candidate.priced is not None
    return Rival(
        name=candidate.priced.region.name,
        reads=tuple(names[buffer] for buffer in candidate.tree.reads),
        time_ns=candidate.price.time_ns if candidate.price else None,
        extra_ns=swap.extra_ns if swap else None,
        refusal=candidate.refusal.kind if candidate.refusal else None,
        reason=candidate.refusal.reason if candidate.refusal else "",
    )
