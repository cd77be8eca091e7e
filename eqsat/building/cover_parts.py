"""The parts of a program → their covers, by this process and by worker processes beside it.

Covers do not depend on the process that chooses them. What a worker cannot do, this process does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import threading
from collections import deque
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

from eqsat.building.job import CoverJob
from eqsat.building.workers import Worker, borrowed_worker, can_build_apart
from eqsat.clock import Clock
from eqsat.cost.pricing import PlanPricer
from eqsat.cost.roofline import peaks_for
from eqsat.cover_part import CoveredPart, cover_part
from eqsat.logs.topics import EXTRACT, RULES
from eqsat.looping.parts import Part
from eqsat.options import Options
from ir.diagnostics import Kind, fail
from ir.host.cores import usable_cores
from ir.target import Target
from ir.tiny.graph import Ref

MOST_WORKERS = 7
"""Worker processes beside this one, at most: each takes 200 MB of memory or more."""
LEAST_UOPS = 300
"""Uops of all parts, at least: a worker starts in 0.5 s, in which one process optimizes about 100 uops."""


class OpenPart(NamedTuple):
    """A part that needs a cover. edges: as in `cover_part`."""

    part: Part
    edges: frozenset[Ref]


def cover_parts(
    parts: Sequence[OpenPart], pricer: PlanPricer, target: Target, options: Options, clock: Clock
) -> list[CoveredPart]:
    """The parts with their covers. pricer: learns the prices that workers have found.

    Raises:
        EqsatError: as `cover_part`; InvalidOption for an EQSAT_WORKERS that is no count.
    """
    return _Covering(parts, pricer, target, options, clock).run(_count_workers([part for part, _ in parts], options))


def _count_workers(parts: Sequence[Part], options: Options) -> int:
    """The number of workers that pay. None where the log tells what this process does."""
    given = os.environ.get("EQSAT_WORKERS", "")
    if given and not given.isdecimal():
        fail(Kind.INVALID_OPTION, "options", f"EQSAT_WORKERS={given!r} is no count", hint="EQSAT_WORKERS=0 for none")
    most = int(given) if given else min(MOST_WORKERS, usable_cores() - 1)
    is_told = RULES.isEnabledFor(logging.INFO) or EXTRACT.isEnabledFor(logging.INFO)
    pays = sum(len(part.graph.nodes) for part in parts) >= LEAST_UOPS and not is_told
    return min(most, len(parts) - 1) if pays and can_build_apart(options) else 0


class _Covering:
    """The parts of one program while they are covered. waiting: the places of those that nobody has taken. failed:
    of those for which a worker had no answer."""

    def __init__(
        self, parts: Sequence[OpenPart], pricer: PlanPricer, target: Target, options: Options, clock: Clock
    ) -> None:
        self._parts, self._pricer, self._target, self._options, self._clock = parts, pricer, target, options, clock
        self._waiting = deque(sorted(range(len(parts)), key=lambda place: -len(parts[place].part.graph.nodes)))
        self._failed: deque[int] = deque()
        self._covered: dict[int, CoveredPart] = {}
        self._workers: list[Worker] = []

    def run(self, count: int) -> list[CoveredPart]:
        """The covered parts. count: workers beside this process."""
        helpers = [threading.Thread(target=self._help, name="eqsat cover", daemon=True) for _ in range(count)]
        for helper in helpers:
            helper.start()
        try:
            self._cover(self._waiting)
            with self._clock.stage("extract"):
                for helper in helpers:
                    helper.join()
        except BaseException:  # nobody waits for the workers any more
            self._waiting.clear()
            for worker in self._workers:
                worker.end()
            raise
        self._cover(self._failed)
        return [self._covered[place] for place in range(len(self._parts))]

    def _cover(self, places: deque[int]) -> None:
        """Cover parts in this process until all are taken."""
        while (place := _take(places)) is not None:
            part, edges = self._parts[place]
            self._clock.count(f"part {len(self._parts) - len(places)} of {len(self._parts)}")
            covered = cover_part(part, edges, self._pricer, self._target, self._options, self._clock)
            self._covered[place] = covered

    def _help(self) -> None:
        """Let a worker cover parts until all are taken, or until it fails: this process meets the error as well, and
        tells it in its own words."""
        with contextlib.suppress(Exception), borrowed_worker() as worker:
            self._workers.append(worker)
            while (place := _take(self._waiting)) is not None:
                try:
                    self._covered[place] = self._ask(worker, *self._parts[place])
                except Exception:
                    self._failed.append(place)
                    raise

    def _ask(self, worker: Worker, part: Part, edges: Collection[Ref]) -> CoveredPart:
        """A worker's cover of a part. Raises OSError where there is none."""
        answer = worker.cover(self._job(part, edges))
        if answer is None or not answer.pickled:
            raise OSError("no answer")
        (saturation, egraph, cover), prices = pickle.loads(answer.pickled)
        self._pricer.known.update(prices)
        return CoveredPart(part, saturation, egraph, cover)

    @cached_property
    def _peaks(self) -> Target:
        """The target with the peaks of the whole program."""
        return peaks_for([part.graph for part, _ in self._parts], self._target)

    def _job(self, part: Part, edges: Collection[Ref]) -> CoverJob:
        return CoverJob(
            name=part.name,
            tiny=part.graph.to_json(),
            reads=dict(part.reads),
            constants=part.constants,
            given=part.given,
            edges=tuple(edges),
            target=self._peaks,
            options=self._options,
        )


def _take(places: deque[int]) -> int | None:
    """The next place, which no other thread gets; None where all are taken."""
    try:
        return places.popleft()
    except IndexError:
        return None
