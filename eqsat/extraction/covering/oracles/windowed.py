"""An oracle for problems that are too large for the exact one: the default's cover, improved by binary programs.

Each binary program chooses the writers of some consecutive buffers again.
"""

from __future__ import annotations

from eqsat.extraction.covering.agreement import resolve_disputes
from eqsat.extraction.covering.oracles.binary_program import SolverLimits
from eqsat.extraction.covering.oracles.exact import exact
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.covering.parts import cover_parts
from eqsat.extraction.covering.problem import Covering, Problem
from eqsat.extraction.covering.swaps import LEAST_GAIN

WINDOW = 64
"""Buffers that are reconsidered together; the next window starts half of it later."""

PASSES = 4
"""Over all windows, as long as one improves."""

LIMITS = SolverLimits(nodes=2_000, seconds=10.0)
"""Of one window."""


def windowed(problem: Problem, window: int = WINDOW, limits: SolverLimits = LIMITS) -> Covering | None:
    """Part by part, starting from the Pareto program's cover of it; the time grows with the number of windows."""
    return cover_parts(problem, lambda part: _improve(part, window, limits))


def _improve(problem: Problem, window: int, limits: SolverLimits) -> Covering | None:
    first = resolve_disputes(problem, pareto)
    if first is None or len(problem.columns) == len(problem.writers):
        return first
    columns, stopped = first.columns, False
    step = max(1, window // 2)
    for _ in range(PASSES):
        before = columns
        for start in range(0, max(1, len(problem.order) - step), step):
            inside = frozenset(problem.order[start : start + window])
            columns, early = _reconsider(problem, columns, inside, limits)
            stopped |= early
        if columns == before:
            break
    return Covering(columns, stopped=stopped)


def _reconsider(
    problem: Problem, columns: tuple[int, ...], inside: frozenset[int], limits: SolverLimits
) -> tuple[tuple[int, ...], bool]:
    """The best cover that differs from this one in the writers of the buffers inside, and whether a limit came first:
    other buffers are written as they are, or not at all."""
    free = (index for buffer in sorted(inside) for index in problem.writers.get(buffer, ()))
    kept = sorted({*free, *columns})
    better = exact(problem.restrict(kept), limits)
    assert better is not None, "the cover itself is among them"
    picked = tuple(kept[index] for index in better.columns)
    gain = problem.cost_of(columns) - problem.cost_of(picked)
    return (picked if gain > LEAST_GAIN * problem.cost_of(columns) else columns), better.stopped
