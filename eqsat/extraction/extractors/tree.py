"""The least sum along every path, as if no kernel were shared: what an e-graph's usual extractor does."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.extraction.extractors.problem import Covering, Problem, resolve, to_fixpoint


def tree(problem: Problem) -> Covering | None:
    """Every buffer by its cheapest writer on its own."""
    found = resolve(problem, sorted(index for _, index in cheapest_writers(problem).values()))
    return None if found is None else Covering(found)


def cheapest_writers(problem: Problem) -> Mapping[int, tuple[float, int]]:
    """Buffer → the least sum along every path to it, in ns, and the column that writes it there; the buffers that
    nothing can compute are missing."""
    best: dict[int, tuple[float, int]] = {}

    def improve(buffer: int) -> bool:
        before = best.get(buffer)
        for index in problem.writers.get(buffer, ()):
            column = problem.columns[index]
            if all(read in best for read in column.reads):
                cost = column.cost + sum(best[read][0] for read in column.reads)
                if buffer not in best or cost < best[buffer][0]:  # strictly: writers at no cost must not go in circles
                    best[buffer] = (cost, index)
        return best.get(buffer) != before

    to_fixpoint(problem, improve)
    return best
