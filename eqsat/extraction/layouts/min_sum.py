"""The labels that make a sum of costs least, each cost of a few variables: exact, by variable elimination.

A variable is eliminated by minimizing the sum of the costs that know it, a table over its neighbours; the labels are
read back in reverse (nonserial dynamic programming: U. Bertelè and F. Brioschi, 1972; bucket elimination: R. Dechter,
1999). The next variable is the one that leaves the smallest table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 1 << 16
"""Entries of a table. Where every elimination would need more, a variable is fixed to its first label instead."""


class Cost(NamedTuple):
    """What the labels of `variables` (ascending) cost together: an axis of `table` each."""

    variables: tuple[int, ...]
    table: NDArray[np.float64]


class Labels(NamedTuple):
    """A label per variable, and the variables that were fixed before the search, since tables would have been too
    large: where there are none, the sum is the least."""

    chosen: tuple[int, ...]
    fixed: tuple[int, ...] = ()


def least(counts: Sequence[int], costs: Iterable[Cost], most: int = MOST) -> Labels:
    """The labels of the least sum; of equals those that come first where variables are decided.

    Args:
        counts: how many labels each variable has.
    """
    about: dict[int, list[Cost]] = {variable: [] for variable in range(len(counts))}
    for cost in costs:
        _enter(about, cost)
    entries = {variable: _entries(near, counts) for variable, near in about.items()}
    smallest = [(size, variable) for variable, size in entries.items()]
    heapify(smallest)
    chosen = [0] * len(counts)
    decided: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    fixed: list[int] = []
    while about:
        while (variable := smallest[0][1]) not in about or entries[variable] != smallest[0][0]:
            heappop(smallest)
        is_fixed = entries[variable] > most
        if is_fixed:
            variable = max(about, key=lambda variable: (counts[variable], len(_near(about[variable])), -variable))
            fixed.append(variable)
        near = _take_out(about, variable)
        if is_fixed:
            after = [_at_first(cost, variable) for cost in near]
        else:
            total = _total([*near, Cost((variable,), np.zeros(counts[variable]))])
            place = total.variables.index(variable)
            others = total.variables[:place] + total.variables[place + 1 :]
            decided.append((variable, others, total.table.argmin(axis=place)))
            after = [Cost(others, total.table.min(axis=place))]
        for cost in after:
            _enter(about, cost)
        for other in _near(near):
            if other in about:
                entries[other] = _entries(about[other], counts)
                heappush(smallest, (entries[other], other))
    for variable, others, best in reversed(decided):
        chosen[variable] = int(best[tuple(chosen[other] for other in others)])
    return Labels(tuple(chosen), tuple(sorted(fixed)))


def _enter(about: dict[int, list[Cost]], cost: Cost) -> None:
    for variable in cost.variables:
        about[variable].append(cost)


def _take_out(about: dict[int, list[Cost]], variable: int) -> list[Cost]:
    """Takes a variable and the costs that know it out."""
    near = about.pop(variable)
    for other in _near(near) - {variable}:
        about[other] = [cost for cost in about[other] if variable not in cost.variables]
    return near


def _near(costs: Iterable[Cost]) -> set[int]:
    return {variable for cost in costs for variable in cost.variables}


def _entries(costs: Iterable[Cost], counts: Sequence[int]) -> int:
    return math.prod(counts[variable] for variable in _near(costs))


def _at_first(cost: Cost, variable: int) -> Cost:
    """The cost with a variable at its first label."""
    place = cost.variables.index(variable)
    others = cost.variables[:place] + cost.variables[place + 1 :]
    return Cost(others, np.asarray(cost.table.take(0, axis=place)))


def _total(costs: Sequence[Cost]) -> Cost:
    """The sum of costs, over all their variables."""
    variables = tuple(sorted(_near(costs)))
    table = np.zeros((1,) * len(variables))
    for cost in costs:
        counts = dict(zip(cost.variables, cost.table.shape, strict=True))
        table = table + cost.table.reshape([counts.get(variable, 1) for variable in variables])
    return Cost(variables, table)
