"""An oracle: the cheapest cover. Every independent part of the problem is solved as one binary program."""

from __future__ import annotations

import math
import time
from collections import Counter

from eqsat.extraction.covering.agreement import resolve_disputes
from eqsat.extraction.covering.oracles.binary_program import SolverLimits, least_cover, linear_bound
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.covering.parts import cover_parts, parts
from eqsat.extraction.covering.problem import Covering, Problem

LIMITS = SolverLimits()
"""Nodes of each part; seconds of all together."""


def exact(problem: Problem, limits: SolverLimits = LIMITS) -> Covering | None:
    """A cover of least cost; where a limit comes first, the best found. Parts that are alike are solved once."""
    deadline = time.monotonic() + limits.seconds

    def least(part: Problem) -> Covering:
        return _least(part, SolverLimits(limits.nodes, max(0.0, deadline - time.monotonic())))

    return cover_parts(problem, least)


def lower_bound(problem: Problem) -> float:
    """ns that no cover can cost less than: the least where kernels may be taken in part. Infinite where there is no
    cover."""
    separate = parts(problem)
    if separate is None:
        return math.inf
    alike = Counter(part.problem for part in separate)
    return sum(count * _relaxed_bound(part) for part, count in alike.items())


def _relaxed_bound(problem: Problem) -> float:
    bound = linear_bound(problem)
    return bound if math.isfinite(bound) else linear_bound(problem.without_marks)


def _least(problem: Problem, limits: SolverLimits) -> Covering:
    """The best cover of one part that was found within the limits; there is one."""
    if len(problem.columns) == len(problem.writers) == 1:
        return Covering((0,), problem.columns[0].cost)
    least = least_cover(problem, limits) or least_cover(problem.without_marks, limits)
    if least is not None and not least.stopped:
        return least
    quick = resolve_disputes(problem, pareto)
    assert quick is not None, "every part has a cover"
    if least is None or problem.cost_of(quick.columns) < problem.cost_of(least.columns):
        return Covering(quick.columns, least.bound if least else 0.0, stopped=True)
    return least
