"""Covers in which every value is computed in one way, from extractors that look at prices alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from eqsat.extraction.covering.parts import Separation, cover_parts, separate
from eqsat.extraction.covering.problem import ALONE, Covering, Extractor, Mark, Problem, resolve

DEAD_ENDS = 32
"""Ways to settle disputes of a part that may fail before a cover that disagrees is returned: covers, and so time."""

REMEMBERED = 1 << 10
"""Settled parts that are remembered: most parts stay as they are while prices are learnt."""


def resolve_disputes(problem: Problem, extractor: Extractor) -> Covering | None:
    """The extractor's cover in which every value is computed in one way; None where there is no cover.

    A dispute concerns few of the parts into which the problem falls where values play no part. The parts that dispute
    values with one another are settled as a problem of their own, which stays as it is while the prices of other parts
    are learnt. Where that gives no cover, the parts that share values are settled one by one. Where such a part cannot
    be settled, its cover disagrees.
    """
    first = extractor(problem)
    if first is None or find_dispute(problem.marks_of(first.columns)) is None:
        return first
    return _settle_clusters(problem, extractor, first) or _settle_parts(problem, extractor)


def _settle_clusters(problem: Problem, extractor: Extractor, first: Covering) -> Covering | None:
    """The extractor's first cover with other columns in the parts that dispute values, so that every value is computed
    in one way. None where these parts cannot be settled apart from the others."""
    separation = separate(problem.without_marks)
    if separation is None:
        return None
    clusters = [frozenset([place]) for place in range(len(separation.parts))]
    chosen: dict[_Cluster, list[int]] = {cluster: [] for cluster in clusters}
    for index in first.columns:
        place = separation.home.get(problem.columns[index].writes)
        if place is None:
            return None
        chosen[clusters[place]].append(index)
    settled: dict[_Cluster, list[int]] = {}
    while True:
        columns = resolve(problem, {index for several in chosen.values() for index in several})
        if columns is None:
            return None
        disputes = _disputes(problem, columns, chosen)
        if not disputes:
            return Covering(columns, first.bound, first.stopped)
        for cluster in _merge(disputes):
            cover = None if cluster in settled else _cover_cluster(problem, separation, cluster, extractor)
            if cover is None:
                return None
            settled[cluster] = cover
            chosen = {other: several for other, several in chosen.items() if not other <= cluster} | {cluster: cover}


_Cluster = frozenset[int]
"""The places of parts that are settled together."""


def _disputes(problem: Problem, columns: Collection[int], chosen: Mapping[_Cluster, Sequence[int]]) -> list[_Cluster]:
    """For each value that a cover computes in several ways, the parts of the clusters whose columns compute it."""
    used = {*columns}
    marks = [
        (cluster, mark)
        for cluster, several in chosen.items()
        for index in several
        if index in used
        for mark in problem.columns[index].marks
    ]
    ways: dict[int, list[int]] = {}
    for _, (value, way) in marks:
        ways.setdefault(value, []).append(way)
    disputed = {value for value, several in ways.items() if len({*several}) > 1 or several.count(ALONE) > 1}
    parts_of: dict[int, _Cluster] = {}
    for cluster, (value, _) in marks:
        if value in disputed:
            parts_of[value] = parts_of.get(value, frozenset()) | cluster
    return list(parts_of.values())


def _merge(clusters: Iterable[_Cluster]) -> list[_Cluster]:
    """The unions of the clusters that share a part, directly or through others."""
    merged: list[_Cluster] = []
    for cluster in clusters:
        apart = [other for other in merged if other.isdisjoint(cluster)]
        merged = [*apart, cluster.union(*(other for other in merged if not other.isdisjoint(cluster)))]
    return merged


def _cover_cluster(
    problem: Problem, separation: Separation, cluster: _Cluster, extractor: Extractor
) -> list[int] | None:
    """The columns that compute what the parts of a cluster compute, each value in one way; None if there are none."""
    around = separation.around(problem, cluster)
    cover = _settle_parts(around.problem, extractor)
    if cover is None or find_dispute(around.problem.marks_of(cover.columns)) is not None:
        return None
    return [around.columns[index] for index in cover.columns]


@lru_cache(maxsize=REMEMBERED)
def _settle_parts(problem: Problem, extractor: Extractor) -> Covering | None:
    """The extractor's cover, in which the parts that share values are settled one by one."""
    return cover_parts(problem, lambda part: _settle(part, extractor))


@lru_cache(maxsize=REMEMBERED)
def _settle(problem: Problem, extractor: Extractor) -> Covering | None:
    """The extractor's cover in which every value is computed in one way; None where there is no cover.

    As long as a value is computed in several ways, the cover is made again with fewer columns: with those that compute
    the value in the way of the cheapest cover. Where no cover is left, the next cheapest way is tried. A cover that
    still disagrees is returned where no columns make another.
    """
    first = extractor(problem)
    waiting = [] if first is None else [(tuple(range(len(problem.columns))), first)]
    disagreeing: list[Covering] = []
    while waiting and len(disagreeing) < DEAD_ENDS:
        kept, chosen = waiting.pop()
        value = find_dispute(problem.marks_of(chosen.columns))
        if value is None:
            return chosen
        covers: list[tuple[float, tuple[int, ...], Covering]] = []
        for fewer in _ways_to_settle(problem, kept, chosen, value):
            cover = extractor(problem.restrict(fewer))
            if cover is not None:
                picked = tuple(fewer[index] for index in cover.columns)
                covers.append((problem.cost_of(picked), fewer, Covering(picked, chosen.bound, cover.stopped)))
        covers.sort(key=lambda choice: -choice[0])
        waiting += [(fewer, cover) for _, fewer, cover in covers]
        if not covers:
            disagreeing.append(chosen)
    return disagreeing[0] if disagreeing else first


def find_dispute(columns: Iterable[Iterable[Mark]]) -> int | None:
    """The first value that columns of these marks compute in several ways, or that one computes `ALONE` beside
    another."""
    ways: dict[int, int] = {}
    for marks in columns:
        for value, way in marks:
            if (way == ALONE and value in ways) or ways.setdefault(value, way) != way:
                return value
    return None


def _ways_to_settle(problem: Problem, kept: tuple[int, ...], chosen: Covering, value: int) -> Iterator[tuple[int, ...]]:
    """The columns that are left where a value is computed in one of the chosen ways, or by the writers of one buffer
    alone: a chosen one, or the first of all, which is nearest to the value itself."""
    marked = {index: [way for about, way in problem.columns[index].marks if about == value] for index in kept}
    in_cover = [index for index in chosen.columns if marked[index]]
    for form in dict.fromkeys(way for index in in_cover for way in marked[index] if way != ALONE):
        yield tuple(index for index in kept if {*marked[index]} <= {form})
    alone = {problem.columns[index].writes for index in kept if ALONE in marked[index]}
    nearest = next((buffer for buffer in problem.order if buffer in alone), None)
    for buffer in dict.fromkeys([nearest, *(problem.columns[index].writes for index in in_cover)]):
        if buffer in alone:
            yield tuple(
                index
                for index in kept
                if not marked[index] or ({*marked[index]} == {ALONE} and problem.columns[index].writes == buffer)
            )
