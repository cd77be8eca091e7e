"""Covers in which every value is computed in one way, from extractors that look at prices alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from eqsat.extraction.covering.parts import cover_parts
from eqsat.extraction.covering.problem import ALONE, Covering, Extractor, Mark, Problem

DEAD_ENDS = 32
"""Ways to settle disputes of a part that may fail before a cover that disagrees is returned: covers, and so time."""

REMEMBERED = 1 << 10
"""Settled parts that are remembered: most parts stay as they are while prices are learnt."""


def resolve_disputes(problem: Problem, extractor: Extractor) -> Covering | None:
    """The extractor's cover in which every value is computed in one way; None where there is no cover.

    Disputes in different parts of the problem do not affect each other: the parts are settled one by one, and parts
    that are alike once. Where a part cannot be settled, its cover disagrees.
    """
    first = extractor(problem)
    if first is None or find_dispute(problem.marks_of(first.columns)) is None:
        return first
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
