"""Covers in which every value is computed in one way, from extractors that look at prices alone."""

from __future__ import annotations

from collections.abc import Iterable

from eqsat.extraction.extractors.problem import Covering, Extractor, Problem


def agreeing(problem: Problem, extractor: Extractor) -> Covering | None:
    """The extractor's cover, made again without the dearer of two ways as long as a value is computed in both."""
    kept = tuple(range(len(problem.columns)))
    chosen = extractor(problem)
    while chosen is not None and (value := computed_both_ways(problem, chosen.columns)) is not None:
        found: list[tuple[float, tuple[int, ...], Covering]] = []
        for way in (False, True):
            fewer = tuple(index for index in kept if (value, way) not in problem.columns[index].marks)
            cover = extractor(problem.restricted(fewer))
            if cover is not None:
                picked = tuple(fewer[index] for index in cover.columns)
                found.append((problem.cost_of(picked), fewer, Covering(picked, chosen.bound, cover.stopped)))
        if not found:
            return chosen
        _, kept, chosen = min(found, key=lambda each: each[0])
    return chosen


def computed_both_ways(problem: Problem, chosen: Iterable[int]) -> int | None:
    """The first value that these columns compute in two ways."""
    seen = dict.fromkeys(mark for index in chosen for mark in problem.columns[index].marks)
    return next((value for value, way in seen if (value, not way) in seen), None)
