"""A greedy walk over the DAG: each buffer keeps the one set of kernels that was cheapest for itself."""

from __future__ import annotations

from eqsat.extraction.covering.pareto import cheapest_sets
from eqsat.extraction.covering.parts import cover_parts
from eqsat.extraction.covering.problem import Covering, Problem


def greedy(problem: Problem) -> Covering | None:
    """The Pareto program with one set per buffer: shared kernels are paid once, and nothing is reconsidered."""
    return cover_parts(problem, lambda part: cheapest_sets(part, 1))
