"""The default: a dynamic program over the sets of kernels behind each buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from eqsat.extraction.covering.bits import members
from eqsat.extraction.covering.parts import cover_parts
from eqsat.extraction.covering.problem import Covering, Problem, resolve
from eqsat.extraction.fixpoint import to_fixpoint

SETS, MOST_SETS = 16, 512
"""How many sets of kernels are kept per buffer, at least and at most."""

EFFORT = 1 << 16
"""Between these limits, the number of sets times the square of a part's number of buffers: small parts are searched
widely."""

SLIGHT = 1e-3
"""A share of the cost of the dearest column: sets that differ only in cheaper columns, as constants are, count as
one."""

REMEMBERED = 1 << 12
"""Covers of parts that an extractor remembers: most parts stay as they are while prices are learnt."""

_Set = tuple[float, int]
"""A set of columns: the sum of their costs, and the set as bits."""


def pareto(problem: Problem, sets: int = SETS) -> Covering | None:
    """The cheapest few sets behind each buffer of a part are kept, and combined until they no longer change. The caller
    checks the ways in which values are computed."""
    return cover_parts(
        problem.without_marks,
        lambda part: cheapest_sets(part, max(sets, min(MOST_SETS, EFFORT // len(part.order) ** 2))),
    )


@lru_cache(maxsize=REMEMBERED)
def cheapest_sets(problem: Problem, sets: int) -> Covering | None:
    """The cover by the cheapest sets behind the roots of a problem that is covered as a whole."""
    program = _ParetoProgram(problem, sets)
    to_fixpoint(problem.order, problem.readers, program.improve)
    together = program.together(problem.roots)
    columns = resolve(problem, members(together[0][1])) if together else None
    return None if columns is None else Covering(columns)


class _ParetoProgram:
    """Per buffer the cheapest sets of columns that compute it."""

    def __init__(self, problem: Problem, keep: int) -> None:
        self._problem, self._keep = problem, keep
        self._sets: dict[int, list[_Set]] = {}
        self._costs: dict[int, float] = {}
        slight = SLIGHT * max((column.cost for column in problem.columns), default=0.0)
        self._dear = sum(1 << index for index, column in enumerate(problem.columns) if column.cost > slight)
        self._writes = {buffer: sum(1 << index for index in indices) for buffer, indices in problem.writers.items()}

    def improve(self, buffer: int) -> bool:
        """Combine what is known of the sources; whether the buffer's sets changed."""
        before = self._sets.get(buffer, [])
        costs = {mask: cost for cost, mask in before}
        for index in self._problem.writers.get(buffer, ()):
            column = self._problem.columns[index]
            for cost, mask in self.together(column.reads, without=self._writes[buffer]):
                costs.setdefault(mask | 1 << index, cost + column.cost)
        self._sets[buffer] = self._cheapest(costs)
        return self._sets[buffer] != before

    def together(self, buffers: Sequence[int], without: int = 0) -> list[_Set]:
        """The cheapest unions of one set per buffer, with no column of `without`.

        Were costs additive, the K cheapest sums of two sorted lists would pair ranks with (i + 1)(j + 1) ≤ K.
        """
        unions: list[_Set] = [(0.0, 0)]
        for buffer in buffers:
            known = [known_set for known_set in self._sets.get(buffer, ()) if not known_set[1] & without]
            if len(unions) == 1 and unions[0][1] == 0:
                unions = known
                continue
            costs: dict[int, float] = {}
            for rank, (cost, mask) in enumerate(unions):
                for other_cost, other in known[: self._keep // (rank + 1)]:
                    both = mask | other
                    if both not in costs:
                        costs[both] = cost + other_cost - self._cost_of(mask & other)
            unions = self._cheapest(costs)
        return unions

    def _cheapest(self, costs: Mapping[int, float]) -> list[_Set]:
        distinct: dict[int, _Set] = {}
        for one in sorted(zip(costs.values(), costs, strict=True)):
            if distinct.setdefault(one[1] & self._dear, one) is one and len(distinct) == self._keep:
                break
        return list(distinct.values())

    def _cost_of(self, mask: int) -> float:
        """Of columns that two sets share: few, and often the same."""
        if mask not in self._costs:
            self._costs[mask] = sum([self._problem.columns[index].cost for index in members(mask)])
        return self._costs[mask]
