"""The oracles' solver: a covering problem as a binary program, solved by HiGHS (through SciPy).

One variable a column. Every root is written; what the columns of one buffer read of another is written as well (one
of them at most is chosen, so they share a row); the columns of one value agree on how it is computed. Cycles are cut
off when a solution has one: of its k steps at most k - 1 may be taken. Where columns may be taken in part, cycles are
cut off by their supports, as loops are in answer set programming (Lin and Zhao, "ASSAT: computing answer sets of a
logic program by SAT solvers", 2004): of buffers that are computed from one another the first is computed from others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import msgspec
import numpy as np

from eqsat.extraction.covering.problem import ALONE, Covering, Problem, resolve


class SolverLimits(msgspec.Struct, frozen=True):
    """Branch-and-bound nodes of one binary program, and seconds of wall clock, which may differ from run to run."""

    nodes: int = 20_000
    seconds: float = 60.0


@dataclass(frozen=True)
class _Row:
    """Σ coefficient · variable ≥ least."""

    terms: tuple[tuple[int, float], ...]
    least: float


@dataclass(frozen=True)
class _Solution:
    """chosen: the columns at 1 (None: there is no solution, or none was found); bound: on the optimum, in ns;
    shares: how far each column is taken."""

    chosen: tuple[int, ...] | None
    bound: float
    stopped: bool
    shares: tuple[float, ...] = ()


def least_cover(problem: Problem, limits: SolverLimits) -> Covering | None:
    """A cover of least cost. None where there is none, or a limit came before the first."""
    deadline = time.monotonic() + limits.seconds
    rows = _rows(problem)
    while True:
        left = SolverLimits(limits.nodes, max(0.0, deadline - time.monotonic()))
        answer = _solve(problem, rows, left)
        if answer.chosen is None:
            return None
        columns = resolve(problem, answer.chosen)
        if columns is not None:
            return Covering(columns, answer.bound, answer.stopped)
        rows += _cuts(problem, answer.chosen)


def linear_bound(problem: Problem) -> float:
    """The least cost in ns where columns may be taken in part: no cover costs less. Infinite where there is none."""
    rows = _rows(problem)
    rows += _paths(problem, 1 + max([len(problem.columns), *(index for row in rows for index, _ in row.terms)]))
    while True:
        answer = _solve(problem, rows, None)
        supports = _supports(problem, answer.shares)
        if not supports:
            return answer.bound
        rows += supports


def _rows(problem: Problem) -> list[_Row]:
    roots = set(problem.roots)
    rows = [_Row(_terms(problem.writers.get(root, ())), 1.0) for root in dict.fromkeys(problem.roots)]
    for buffer, read, through in _steps(problem):
        if read not in roots:
            rows.append(_Row(_terms(problem.writers.get(read, ())) + _terms(through, -1.0), 0.0))
        back = _through(problem, read, buffer)
        if back and buffer < read:
            rows.append(_Row(_terms((*through, *back), -1.0), -1.0))
    return rows + _agreements(problem)


def _steps(problem: Problem) -> Iterable[tuple[int, int, tuple[int, ...]]]:
    """A buffer, one that it may be computed from, and the columns that do so."""
    for buffer, writers in problem.writers.items():
        for read in dict.fromkeys(read for index in writers for read in problem.columns[index].reads):
            yield buffer, read, _through(problem, buffer, read)


def _through(problem: Problem, buffer: int, read: int) -> tuple[int, ...]:
    """The columns that compute the buffer from `read`."""
    return tuple(index for index in problem.writers.get(buffer, ()) if read in problem.columns[index].reads)


def _agreements(problem: Problem) -> list[_Row]:
    """A variable for every way in which a value may be computed, after those of the columns: at most one way of a value
    is open. A column that computes a value alone is a way of its own, with the other columns of its buffer."""
    ways: dict[int, dict[tuple[int, int], list[int]]] = {}
    for index, column in enumerate(problem.columns):
        for value, way in dict.fromkeys(column.marks):
            owner = column.writes if way == ALONE else -1
            ways.setdefault(value, {}).setdefault((way, owner), []).append(index)
    rows: list[_Row] = []
    switch = len(problem.columns)
    for by_way in ways.values():
        if len(by_way) > 1:
            switches = range(switch, switch + len(by_way))
            rows.append(_Row(_terms(switches, -1.0), -1.0))
            for number, columns in zip(switches, by_way.values(), strict=True):
                rows += [_Row((*_terms(several, -1.0), (number, 1.0)), 0.0) for several in _by_buffer(problem, columns)]
            switch += len(by_way)
    return rows


def _by_buffer(problem: Problem, columns: Iterable[int]) -> Iterable[list[int]]:
    """The columns by what they write: one of each buffer at most is chosen."""
    indices_of: dict[int, list[int]] = {}
    for index in columns:
        indices_of.setdefault(problem.columns[index].writes, []).append(index)
    return indices_of.values()


def _cuts(problem: Problem, chosen: Sequence[int]) -> list[_Row]:
    """One row against every cycle of these columns."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_edges_from((problem.columns[k].writes, read) for k in chosen for read in problem.columns[k].reads)
    rows = []
    for knot in sorted(map(sorted, networkx.strongly_connected_components(graph))):
        if len(knot) > 1 or graph.has_edge(knot[0], knot[0]):
            cycle = networkx.find_cycle(graph.subgraph(knot), knot[0])
            taken = [index for buffer, read in cycle for index in _through(problem, buffer, read)]
            rows.append(_Row(_terms(taken, -1.0), 1.0 - len(cycle)))
    return rows


def _paths(problem: Problem, free: int) -> list[_Row]:
    """From a root through one read of each column that is taken a path leads to a column without reads: a unit of flow.
    Whatever a root may be computed from in several ways is thereby taken as a whole, not in a part for each.

    One flow per place of the read followed and root, as many as `_VARIABLES` allows; `free` is the first number that no
    variable has.
    """
    rows = []
    places = range(min(_PLACES, max([len(column.reads) for column in problem.columns], default=0)))
    flows = product(places, dict.fromkeys(problem.roots))
    for place, root in islice(flows, _VARIABLES // max(1, len(problem.columns))):
        leaving: dict[int, list[int]] = {}
        for index, column in enumerate(problem.columns):
            rows.append(_Row(((index, 1.0), (free + index, -1.0)), 0.0))
            if column.reads:
                leaving.setdefault(column.reads[place % len(column.reads)], []).append(free + index)
        for buffer in dict.fromkeys([root, *leaving]):
            entering = [free + index for index in problem.writers.get(buffer, ())]
            flow = _terms(entering) + _terms(leaving.get(buffer, ()), -1.0)
            rows.append(_Row(flow, 1.0 if buffer == root else 0.0))
        free += len(problem.columns)
    return rows


_PLACES, _VARIABLES = 3, 2_000
"""Places of reads that are followed from each root, and variables of all flows."""


def _supports(problem: Problem, shares: Sequence[float]) -> list[_Row]:
    """The rows that these shares miss: a buffer in a knot of those taken is written only as far as some buffer of the
    knot is written from others."""
    import networkx

    taken = [index for index, share in enumerate(shares) if share > _LEAST_SHARE]
    graph = networkx.DiGraph()
    graph.add_edges_from((problem.columns[k].writes, read) for k in taken for read in problem.columns[k].reads)
    rows = []
    for knot in networkx.strongly_connected_components(graph):
        if len(knot) > 1:
            writers = {buffer: problem.writers.get(buffer, ()) for buffer in sorted(knot)}
            support = [k for several in writers.values() for k in several if knot.isdisjoint(problem.columns[k].reads)]
            supported = sum([shares[index] for index in support])
            for several in writers.values():
                if sum([shares[index] for index in several]) > supported + _LEAST_SHARE:
                    rows.append(_Row(_terms(support) + _terms(several, -1.0), 0.0))
    return rows


_LEAST_SHARE = 1e-6
"""What is less is a rounding of the solver."""


def _terms(indices: Iterable[int], coefficient: float = 1.0) -> tuple[tuple[int, float], ...]:
    return tuple((index, coefficient) for index in indices)


def _solve(problem: Problem, rows: Sequence[_Row], limits: SolverLimits | None) -> _Solution:
    """By HiGHS; without limits, relaxed to fractions."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    columns = len(problem.columns)
    width = max([columns, *(1 + index for row in rows for index, _ in row.terms)])
    places = [(place, index, value) for place, row in enumerate(rows) for index, value in row.terms]
    row_of, column_of, values = zip(*places, strict=True) if places else ((), (), ())
    matrix = csr_array((values, (row_of, column_of)), shape=(len(rows), width))
    result: Any = milp(
        np.array([column.cost for column in problem.columns] + [0.0] * (width - columns)),
        constraints=LinearConstraint(matrix, [row.least for row in rows], np.inf),
        bounds=Bounds(0, 1),
        integrality=np.full(width, limits is not None),
        options={"mip_rel_gap": 0.0, "node_limit": limits.nodes, "time_limit": limits.seconds} if limits else {},
    )
    if result.x is None:
        return _Solution(None, math.inf if result.status == _INFEASIBLE else 0.0, result.status == _STOPPED)
    bound = result.mip_dual_bound if limits and result.mip_dual_bound is not None else result.fun
    shares = tuple(map(float, result.x[:columns]))
    chosen = tuple(index for index, share in enumerate(shares) if share > 0.5)
    return _Solution(chosen, float(bound), result.status == _STOPPED, shares)


_STOPPED, _INFEASIBLE = 1, 2
"""Of scipy.optimize.milp: a limit of nodes or seconds; no solution."""
