"""Autotune: the plans of each region that the estimate puts first are measured, and the fastest is taken and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.clock import Progress
from eqsat.cost.pricing import PlanPricer
from eqsat.planning.plan_cache import MeasuredPlan, PlanCache
from eqsat.planning.refinement import Replanned, what_changed
from ir.diagnostics import Diagnostic, EqsatError, Kind, note
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.pricer import Price
from ir.region.region import Region

STAGE = "tuning"
MOST_PLANS, SLOWEST = 8, 3.0
"""Plans of a region that are measured, and how many times the first one's estimate theirs may be."""
UNCHANGED = "the estimate's choice"
"""The end of a note on a region whose plan is that which the estimate puts first."""
MARGIN = 0.03
"""A plan that is faster than the estimate's first choice by less than this share may be so by chance."""
Timer = Callable[[Region, Sequence[Plan]], Sequence[float | EqsatError]]
"""The time of each plan of a region, in ns, or why it cannot be built; of one at least a time."""


def tune(
    module: Module, prices: Sequence[Price], pricer: PlanPricer, timer: Timer, cache: PlanCache, progress: Progress
) -> Replanned:
    """The measured plans of a module whose calls have these prices. `progress` is told of each region that is measured;
    one that was measured before on this machine is taken from the cache."""
    regions = {call.region.name: call.region for call in module.running}
    found: dict[str, Price] = dict(zip((call.region.name for call in module.running), prices, strict=True))
    notes: list[Diagnostic] = []
    for number, (name, region) in enumerate(regions.items(), 1):
        candidates = _worth_measuring(pricer.rank(region))
        plans = [each.plan for each in candidates]
        if len(plans) < 2:
            continue
        known = cache.recall(region, plans)
        if known is None:
            progress(f"tune {number} of {len(regions)}: {name}")
            known = fastest(plans, timer(region, plans))
            cache.keep(region, known)
        found[name] = candidates[plans.index(known.plan)]
        notes += _measurement_notes(name, known, plans[0])
    return Replanned(tuple(found[call.region.name] for call in module.running), tuple(notes))


def fastest(plans: Sequence[Plan], times: Sequence[float | EqsatError]) -> MeasuredPlan:
    """The plan to take: the fastest, unless the first of those that have a time is about as fast."""
    timed = [(plan, each) for plan, each in zip(plans, times, strict=True) if not isinstance(each, EqsatError)]
    refused = tuple(str(each.diagnostics[0].message) for each in times if isinstance(each, EqsatError))
    (first, first_ns), best = timed[0], min(timed, key=lambda each: each[1])
    plan, ns = best if best[1] < first_ns * (1 - MARGIN) else timed[0]
    return MeasuredPlan(plan, ns, first_ns if first == plans[0] else None, len(timed), refused)


def _worth_measuring(ranked: Sequence[Price]) -> list[Price]:
    return [each for each in ranked[:MOST_PLANS] if each.time_ns <= SLOWEST * ranked[0].time_ns]


def _measurement_notes(name: str, found: MeasuredPlan, first: Plan) -> list[Diagnostic]:
    """The flag of a plan that a clock chose, which another run or machine may choose otherwise; and of those that could
    not be measured."""
    message = f"the fastest of {found.tried} plans that were measured, {found.ns / 1e3:.1f} µs"
    if found.plan == first:
        message += f": {UNCHANGED}"
    else:
        took = "could not be built" if found.first_ns is None else f"took {found.first_ns / 1e3:.1f} µs"
        message += f": {what_changed(first, found.plan)}; the estimate's choice {took}"
    notes = [note(Kind.TUNED, STAGE, message, at=name)]
    if found.refused:
        message = f"plans passed over, as they could not be built: {len(found.refused)}; the first: {found.refused[0]}"
        notes.append(note(Kind.COMPILE_FAILED, STAGE, message, at=name))
    return notes
