"""Autotune: the plans of each region that the estimate puts first are measured, and the fastest is taken and kept; so
are the covers that the estimate puts first, by the sums of their kernels' times."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import NamedTuple

from eqsat.clock import Progress
from eqsat.cost.pricing import PlanPricer
from eqsat.executors import run_jobs
from eqsat.extraction.cover import Cover
from eqsat.planning.plan_cache import MeasuredPlan, PlanCache
from eqsat.planning.refinement import Replanned, what_changed
from ir.diagnostics import Diagnostic, EqsatError, Kind, note
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.pricer import Price
from ir.region.region import Region, canonical

STAGE = "tuning"
MOST_PLANS, SLOWEST = 8, 3.0
"""Plans of a region that are measured, and how many times the first one's estimate theirs may be."""
UNCHANGED = "the estimate's choice"
"""The end of a note on a region whose plan is that which the estimate puts first."""
MARGIN = 0.03
"""A plan that is faster than the estimate's first choice by less than this share may be so by chance."""
Timer = Callable[[Region, Sequence[Plan]], Sequence[float | EqsatError]]
"""The time of each plan of a region, in ns, or why it cannot be built; of one at least a time."""


class Measuring(NamedTuple):
    """How plans are measured: the kernels' prices, the timer of plans, the cache of measurements, the function that
    hears of every region that is measured, the executor that measures (None: this process), and when to end, by
    `time.monotonic`."""

    pricer: PlanPricer
    timer: Timer
    cache: PlanCache
    progress: Progress
    executor: Executor | None = None
    end: float = math.inf


def tune(module: Module, prices: Sequence[Price], measuring: Measuring) -> Replanned:
    """The measured plans of a module whose calls have these prices. A region that was measured before on this machine
    is taken from the cache; one that is not measured in time keeps its plan, with a note."""
    regions = {call.region.name: call.region for call in module.running}
    chosen: dict[str, Price] = dict(zip((call.region.name for call in module.running), prices, strict=True))
    candidates = {name: _worth_measuring(measuring.pricer.rank(region)) for name, region in regions.items()}
    several = {name: region for name, region in regions.items() if len(candidates[name]) > 1}
    notes: list[Diagnostic] = []
    known = measure(several, candidates, measuring)
    for name in several:
        if name in known:
            plans = [price.plan for price in candidates[name]]
            chosen[name] = candidates[name][plans.index(known[name].plan)]
            notes += _measurement_notes(name, known[name], plans[0])
        else:
            notes.append(note(Kind.TUNED, STAGE, "not measured in the seconds of autotune=", at=name))
    return Replanned(tuple(chosen[call.region.name] for call in module.running), tuple(notes))


def measure(
    regions: Mapping[str, Region], candidates: Mapping[str, Sequence[Price]], measuring: Measuring
) -> dict[str, MeasuredPlan]:
    """The fastest plan of each region, as far as the regions can be measured in time: from the cache, or measured.

    Raises:
        EqsatError: where no plan of a region can be built.
    """
    plans = {name: [price.plan for price in candidates[name]] for name in regions}
    recalled = {name: measuring.cache.recall(region, plans[name]) for name, region in regions.items()}
    known = {name: plan for name, plan in recalled.items() if plan is not None}
    missing = [name for name in regions if name not in known]
    jobs = {name: (regions[name], plans[name]) for name in missing}
    places = {name: number for number, name in enumerate(regions, 1)}
    with contextlib.closing(run_jobs(measuring.timer, jobs, measuring.executor)) as results:
        for name in missing:
            if time.monotonic() >= measuring.end:
                break
            measuring.progress(f"tune {places[name]} of {len(regions)}: {name}")
            _, times = next(results)
            if isinstance(times, EqsatError):
                raise times
            known[name] = fastest(plans[name], times)
            measuring.cache.keep(regions[name], known[name])
    return known


def fastest_cover(covers: Sequence[Cover], measuring: Measuring) -> Cover:
    """The cover whose kernels take least in all, each by its fastest plan; the first unless another is faster by
    `MARGIN`. Kernels that differ in names only are measured once; covers that are not measured in time do not count."""
    known: dict[Region, float] = {}
    times: list[float] = []
    for cover in covers:
        running = [kernel for kernel in cover.kernels if kernel.price and not kernel.price.is_idle]
        regions = {canonical(kernel.region): kernel.region for kernel in running}
        missing = [region for key, region in regions.items() if key not in known]
        fresh = {f"{region.name} ({number})": region for number, region in enumerate(missing, 1)}
        candidates = {name: _worth_measuring(measuring.pricer.rank(region)) for name, region in fresh.items()}
        try:
            measured = measure(fresh, candidates, measuring)
        except EqsatError:
            if cover is covers[0]:
                raise
            measured = {}  # a kernel of it cannot be built
        known |= {canonical(fresh[name]): plan.ns for name, plan in measured.items()}
        if regions.keys() <= known.keys():
            times.append(sum(known[canonical(kernel.region)] for kernel in running))
        else:
            times.append(math.inf)
    best = min(range(len(covers)), key=times.__getitem__)
    if times[0] == math.inf or times[best] >= times[0] * (1 - MARGIN):
        return covers[0]
    counted = sum(ns < math.inf for ns in times)
    message = f"the fastest of {counted} covers that were measured, {times[best] / 1e3:.1f} µs; the estimate's choice "
    reason = note(Kind.TUNED, STAGE, f"{message}took {times[0] / 1e3:.1f} µs")
    return replace(covers[best], diagnostics=(*covers[best].diagnostics, reason))


def fastest(plans: Sequence[Plan], times: Sequence[float | EqsatError]) -> MeasuredPlan:
    """The plan to take: the fastest, unless the first plan that was timed is about as fast."""
    timed = [
        (plan, timed_run) for plan, timed_run in zip(plans, times, strict=True) if not isinstance(timed_run, EqsatError)
    ]
    refused = tuple(str(timed_run.diagnostics[0].message) for timed_run in times if isinstance(timed_run, EqsatError))
    (first, first_ns), best = timed[0], min(timed, key=lambda entry: entry[1])
    plan, ns = best if best[1] < first_ns * (1 - MARGIN) else timed[0]
    return MeasuredPlan(plan, ns, first_ns if first == plans[0] else None, len(timed), refused)


def _worth_measuring(ranked: Sequence[Price]) -> list[Price]:
    return [price for price in ranked[:MOST_PLANS] if price.time_ns <= SLOWEST * ranked[0].time_ns]


def _measurement_notes(name: str, measured: MeasuredPlan, first: Plan) -> list[Diagnostic]:
    """The notes about a plan that a clock chose, since another run or machine may choose another plan, and about plans
    that could not be measured."""
    message = f"the fastest of {measured.tried} plans that were measured, {measured.ns / 1e3:.1f} µs"
    if measured.plan == first:
        message += f": {UNCHANGED}"
    else:
        took = "could not be built" if measured.first_ns is None else f"took {measured.first_ns / 1e3:.1f} µs"
        message += f": {what_changed(first, measured.plan)}; the estimate's choice {took}"
    notes = [note(Kind.TUNED, STAGE, message, at=name)]
    if measured.refused:
        message = (
            f"plans passed over, as they could not be built: {len(measured.refused)}; the first: {measured.refused[0]}"
        )
        notes.append(note(Kind.COMPILE_FAILED, STAGE, message, at=name))
    return notes
