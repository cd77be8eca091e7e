"""A covering problem taken apart where every cover agrees.

A landmark is a buffer that every cover writes. Reading one is free: it is paid whoever reads it. What is left of the
problem falls into parts that share no buffer, and the optimum of the whole is the union of theirs.

Landmarks of delete-free planning by their greatest fixpoint: Zhu and Givan, "Landmark extraction via planning graph
propagation", 2003; Keyder, Richter and Helmert, "Sound and complete landmarks for and/or graphs", 2010.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from eqsat.extraction.covering.bits import members
from eqsat.extraction.covering.problem import ALONE, Column, Covering, Extractor, Mark, Problem, resolve
from eqsat.extraction.fixpoint import to_fixpoint
from ir.post_order import post_order

LATEST = 4
"""Separations that are remembered: a search asks for those of one problem several times, one problem after another."""


@dataclass(frozen=True)
class Subproblem:
    """A problem of its own, with `columns`, the places of its columns in the whole. Its buffers and values are numbered
    by first appearance, so that parts are equal that differ in these numbers only."""

    problem: Problem
    columns: tuple[int, ...]


def parts(problem: Problem) -> tuple[Subproblem, ...] | None:
    """The independent parts, without the columns that no optimum needs; None where there is no cover."""
    separation = separate(problem)
    return None if separation is None else separation.parts


@dataclass(frozen=True)
class Separation:
    """How a problem falls apart. parts: as `parts` returns. home: buffer → the place of its part. known: the landmarks.
    knots: buffer → one number for all buffers that can be computed from one another."""

    parts: tuple[Subproblem, ...]
    home: Mapping[int, int]
    known: frozenset[int]
    knots: Mapping[int, int]

    def around(self, problem: Problem, places: Collection[int]) -> Subproblem:
        """The problem of some parts, with all their columns, also those that others dominate: as far as what these
        read is a landmark, a buffer of these parts, or a buffer of no part."""
        own = [buffer for buffer, place in self.home.items() if place in places]
        slim: dict[int, Column] = {}
        entered = set(own)
        while own:
            buffer = own.pop()
            for index in problem.writers[buffer]:
                column = problem.columns[index]
                reads = tuple(dict.fromkeys(read for read in column.reads if not self._is_paid(read, buffer)))
                if all(self.home[read] in places if read in self.home else read in problem.writers for read in reads):
                    slim[index] = column._replace(reads=reads)
                    own += [read for read in reads if read not in entered]
                    entered.update(reads)
        indices = sorted(slim)
        return _subproblem(slim, indices, range(len(problem.columns)), self.known)

    def _is_paid(self, read: int, buffer: int) -> bool:
        """Whether what computes a buffer may read another for free: a landmark that is not computed from the buffer."""
        return read in self.known and self.knots[read] != self.knots.get(buffer)


@lru_cache(maxsize=LATEST)
def separate(problem: Problem) -> Separation | None:
    """The separation of a problem; None where there is no cover."""
    best = _best_columns(problem)
    left = problem.restrict(best)
    if any(root not in left.writers for root in problem.roots):
        return None
    needed = frozenset(left.order)
    kept = [index for index in best if problem.columns[index].writes in needed]
    columns = [problem.columns[index] for index in kept]
    known, knots, contested = landmarks(left), knots_of(left), _contested_values(columns)
    slim = [_slim_column(column, known, knots, contested) for column in columns]
    groups = _groups(slim)
    several = tuple(_subproblem(slim, indices, kept, known) for indices in groups)
    home = {slim[index].writes: place for place, indices in enumerate(groups) for index in indices}
    return Separation(several, home, known, knots)


def _groups(columns: Sequence[Column]) -> list[list[int]]:
    """The columns, by their places, in groups that share no buffer and no value."""
    above: dict[int, int] = {}

    def top(member: int) -> int:
        while (over := above.setdefault(member, member)) != member:
            above[member] = member = above[over]
        return member

    for column in columns:
        group = top(column.writes)
        for read in column.reads:
            above[top(read)] = group
        for value, _ in column.marks:
            above[top(~value)] = group  # no buffer has a number below 0
    groups: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        groups.setdefault(top(column.writes), []).append(place)
    return list(groups.values())


def cover_parts(problem: Problem, extractor: Extractor) -> Covering | None:
    """The extractor's covers of the parts, together; parts that are alike are covered once."""
    independent = parts(problem)
    if independent is None:
        return None
    cover_of = cache(extractor)
    covers: list[tuple[Subproblem, Covering]] = []
    for part in independent:
        cover = cover_of(part.problem)
        if cover is None:
            return None
        covers.append((part, cover))
    columns = resolve(problem, [part.columns[index] for part, cover in covers for index in cover.columns])
    assert columns is not None, "covers of the parts are a cover of the whole"
    return Covering(columns, sum(cover.bound for _, cover in covers), any(cover.stopped for _, cover in covers))


def landmarks(problem: Problem) -> frozenset[int]:
    """The buffers that every cover writes. Every root must have a cover."""
    numbers = {buffer: number for number, buffer in enumerate(problem.order)}
    everything = (1 << len(numbers)) - 1
    behind = dict.fromkeys(numbers, everything)

    def improve(buffer: int) -> bool:
        before = behind[buffer]
        common = everything
        for index in problem.writers.get(buffer, ()):
            needed = 0
            for read in problem.columns[index].reads:
                needed |= behind[read]
            common &= needed
        behind[buffer] = common | 1 << numbers[buffer]
        return behind[buffer] != before

    to_fixpoint(problem.order, problem.readers, improve)
    common = 0
    for root in problem.roots:
        common |= behind[root]
    return frozenset(problem.order[number] for number in members(common))


def _best_columns(problem: Problem) -> list[int]:
    """The columns that can run, and that no other column of their buffer dominates: no dearer, with no other reads and
    no other marks."""
    possible, columns = problem.computable, problem.columns
    best: list[int] = []
    for buffer, writers in problem.writers.items():
        if buffer in possible:
            runs = [k for k in writers if possible.issuperset(columns[k].reads)]
            best += runs if len(runs) < 2 else _undominated(columns, runs)
    return sorted(best)


def _undominated(columns: Sequence[Column], writers: Iterable[int]) -> list[int]:
    """The columns of one buffer that no other one dominates."""
    best: list[int] = []
    better: list[tuple[set[int], set[Mark]]] = []
    for index in sorted(writers, key=lambda k: (columns[k].cost, len(columns[k].reads))):
        reads, marks = set(columns[index].reads), set(columns[index].marks)
        for other, ways in better:
            if other <= reads and ways <= marks:
                break
        else:
            better.append((reads, marks))
            best.append(index)
    return best


def knots_of(problem: Problem) -> Mapping[int, int]:
    """Buffer → one number for all buffers that can be computed from one another: the strongly connected components (by
    the algorithm of Kosaraju and Sharir, 1981)."""
    knots: dict[int, int] = {}
    needed = frozenset(problem.order)

    def readers(buffer: int) -> list[int]:
        return [reader for reader in problem.readers.get(buffer, ()) if reader in needed and reader not in knots]

    for buffer in reversed(problem.order):
        if buffer not in knots:
            knot = post_order([buffer], readers)
            knots |= dict.fromkeys(knot, min(knot))
    return knots


def _slim_column(column: Column, known: frozenset[int], knots: Mapping[int, int], contested: frozenset[int]) -> Column:
    """The column without its reads of landmarks, but for those that could close a cycle, and without its marks of
    values that are not contested."""
    home = knots[column.writes]
    reads = [read for read in column.reads if read not in known or knots[read] == home]
    marks = [mark for mark in column.marks if mark[0] in contested]
    return Column(column.writes, tuple(dict.fromkeys(reads)), column.cost, tuple(dict.fromkeys(marks)))


def _contested_values(columns: Iterable[Column]) -> frozenset[int]:
    """The values that columns of a cover could compute in several ways."""
    ways: dict[int, set[tuple[int, int]]] = {}
    for column in columns:
        for value, way in column.marks:
            ways.setdefault(value, set()).add((way, column.writes if way == ALONE else -1))
    return frozenset(value for value, several in ways.items() if len(several) > 1)


def _subproblem(
    slim: Mapping[int, Column] | Sequence[Column], indices: Sequence[int], kept: Sequence[int], known: frozenset[int]
) -> Subproblem:
    buffers: dict[int, int] = {}
    values: dict[int, int] = {}
    columns = [slim[index] for index in indices]
    numbered = [
        Column(
            buffers.setdefault(column.writes, len(buffers)),
            tuple([buffers.setdefault(read, len(buffers)) for read in column.reads]),
            column.cost,
            tuple([(values.setdefault(value, len(values)), way) for value, way in column.marks]),
        )
        for column in columns
    ]
    roots = dict.fromkeys(buffers[column.writes] for column in columns if column.writes in known)
    return Subproblem(Problem(tuple(numbered), tuple(roots)), tuple(kept[index] for index in indices))
