"""An oracle: random covers. Tests run them to show that every cover computes the same."""

from __future__ import annotations

import random

from eqsat.extraction.covering.oracles.tree import tree
from eqsat.extraction.covering.problem import Column, Covering, Problem, resolve

_TRIES = 16


def shuffle(problem: Problem, rng: random.Random) -> Covering | None:
    """Every buffer takes a random column; where that closes a cycle, the least of random costs."""
    for _ in range(_TRIES):
        chosen = resolve(problem, [rng.choice(indices) for indices in problem.writers.values()])
        if chosen is not None:
            return Covering(chosen)
    columns = tuple(Column(column.writes, column.reads, rng.expovariate(1.0)) for column in problem.columns)
    return tree(Problem(columns, problem.roots))
