"""How near the rejected candidates came: what a cover would cost with another kernel in one place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from eqsat.extraction.candidate import CandidateCover, CandidateProblem, KernelCandidate
from eqsat.extraction.cover import CoverKernel
from eqsat.extraction.covering.swaps import LEAST_GAIN, Swap, Swaps, swapped
from eqsat.extraction.selection import JointPart, Rival, Selection

NEAREST = 8
"""Rivals of one kernel that are priced and reported, besides the refused ones."""

TWO_WAYS = "computes a value in another way than other kernels"


class Rivals:
    """For each kernel of a cover that runs when the program does, the candidates whose swap costs least.

    Args:
        problem: of every candidate that was not refused.
    """

    def __init__(self, problem: CandidateProblem, cover: CandidateCover) -> None:
        candidates, writers = problem.candidates, problem.problem.writers
        self._problem, self._cover, self._candidates = problem, cover, candidates
        chosen = problem.indices(cover)
        self._least = LEAST_GAIN * problem.problem.cost_of(chosen)
        swaps = Swaps(problem.problem, chosen)
        self._nearest: dict[int, list[tuple[KernelCandidate, Swap | None]]] = {}
        for winner in cover:
            if not winner.compile_time:
                others = [index for index in writers[winner.buffer] if candidates[index] is not winner]
                rivals = [(candidates[index], swaps.with_column(index)) for index in others]
                self._nearest[winner.buffer] = sorted(rivals, key=_distance)[:NEAREST]

    @property
    def needed(self) -> list[KernelCandidate]:
        """The rivals, and the kernels that would compute what the rivals read."""
        needed: dict[KernelCandidate, None] = {}
        for nearest in self._nearest.values():
            for rival, swap in nearest:
                entering = swap.entering if swap else ()
                needed |= dict.fromkeys([rival, *(self._candidates[index] for index in entering)])
        return list(needed)

    def cheaper(self) -> list[KernelCandidate]:
        """The rivals that make the cover cheaper, the best first. Once all are priced."""
        return [rival for rival, swap in self._swaps() if swap.extra_ns < -self._least]

    def nearest_covers(self) -> Iterator[CandidateCover]:
        """The cover with each rival in its place, the nearest first. Once all are priced."""
        return (self._problem.cover(self._swapped(rival, swap)) for rival, swap in self._swaps())

    def _swaps(self) -> list[tuple[KernelCandidate, Swap]]:
        """The rivals that can be swapped in, the nearest first."""
        swaps = [(rival, swap) for nearest in self._nearest.values() for rival, swap in nearest if swap]
        return sorted(swaps, key=_distance)

    def _swapped(self, rival: KernelCandidate, swap: Swap) -> tuple[int, ...]:
        kept = [candidate for candidate in self._cover if candidate.buffer != rival.buffer]
        return swapped(self._problem.problem, self._problem.indices(tuple(kept)), swap)

    def explain(
        self,
        kernel: CoverKernel,
        candidates: Mapping[int, Sequence[KernelCandidate]],
        names: Mapping[int, str],
        extra_ns: Mapping[KernelCandidate, float | None],
    ) -> CoverKernel:
        """A kernel of the finished cover, with the candidates that it was chosen before. Once all are priced.

        Args:
            candidates: all of each buffer, the refused ones among them.
            extra_ns: of a rival whose finished cover is known, by how much the program would be dearer; None where a
                value would be computed in two ways.
        """
        if kernel.price is None:
            return kernel
        rivals: list[Rival] = []
        for part in kernel.parts or (kernel,):
            (buffer,) = part.writes
            for rival, swap in self._nearest[buffer]:
                estimate = swap.extra_ns if swap and abs(swap.extra_ns) > self._least else swap and 0.0
                reason = TWO_WAYS if extra_ns.get(rival, 0.0) is None else ""
                rivals.append(_rival(rival, extra_ns.get(rival, estimate), names, reason))
            rivals += [_rival(candidate, None, names) for candidate in candidates[buffer] if candidate.refusal]
        selection = Selection(
            candidates=sum(len(candidates[buffer]) for part in kernel.parts or (kernel,) for buffer in part.writes),
            rivals=tuple(sorted(rivals, key=lambda rival: math.inf if rival.extra_ns is None else rival.extra_ns)),
            parts=tuple(
                JointPart(part.region.name, tuple(names[buffer] for buffer in part.writes), part.time_ns)
                for part in kernel.parts
            ),
            apart=kernel.selection.apart,
        )
        return replace(kernel, selection=selection)


def _distance(rival: tuple[KernelCandidate, Swap | None]) -> float:
    return rival[1].extra_ns if rival[1] else math.inf


def _rival(candidate: KernelCandidate, extra_ns: float | None, names: Mapping[int, str], reason: str = "") -> Rival:
    assert candidate.priced is not None
    return Rival(
        name=candidate.priced.region.name,
        reads=tuple(names[buffer] for buffer in candidate.tree.reads),
        time_ns=candidate.price.time_ns if candidate.price else None,
        extra_ns=extra_ns,
        refusal=candidate.refusal.kind if candidate.refusal else None,
        reason=candidate.refusal.reason if candidate.refusal else reason,
    )
