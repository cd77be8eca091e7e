"""A baseline: the least sum along every path, as if no kernel were shared. An e-graph's usual extractor does this."""

from __future__ import annotations

from eqsat.extraction.covering.problem import Covering, Problem, resolve


def tree(problem: Problem) -> Covering | None:
    """Every buffer by its cheapest writer on its own."""
    columns = resolve(problem, sorted(index for _, index in problem.cheapest_writers.values()))
    return None if columns is None else Covering(columns)
