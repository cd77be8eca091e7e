"""The Pricer: the price of a candidate kernel is the price of its best plan, if the kernel is legal at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from eqsat.cost.least_offsets import at_least_offsets
from eqsat.cost.occupancy import stops, widest_of
from eqsat.cost.own_terms import PART_OF, KernelEstimate, find_terms, with_own_terms
from eqsat.cost.roofline import ALL_TERMS, Roofline, Terms
from ir.diagnostics import Kind
from ir.kernel.resources import KernelResources
from ir.plan.plan import Plan
from ir.plan.renaming import names_between, rename_plan
from ir.poly.analysis import RegionAnalysis
from ir.poly.core import PolyCore
from ir.pricer import Price, Rejected, Work
from ir.region.region import Region, canonical
from ir.target import Target

SPILLS = "registers are spilled"
"""The STOP condition of a plan whose values the compiler could not keep in registers."""
Analyse = Callable[[Region], RegionAnalysis]
Planner = Callable[[Region, PolyCore, Target], Sequence[tuple[Plan, Work]]]


class PlanPricer:
    """Prices regions with the analyses and the planner of a code generator, which the pipeline hands in. ordered: the
    planner's plans take the terms of floating-point sums in index order. known: the prices so far, by the canonical
    form of a region (`canonical`, `at_least_offsets`)."""

    def __init__(
        self, target: Target, analyse: Analyse, planner: Planner, terms: Terms = ALL_TERMS, *, ordered: bool = False
    ) -> None:
        self.ordered = ordered
        self._target = target
        self._analyse = analyse
        self._planner = planner
        self._terms = terms
        self._own = find_terms(terms.own)
        self.known: dict[Region, Price | Rejected] = {}
        self._priced: dict[Region, Price | Rejected] = {}
        self._roofline = Roofline(target, terms)
        replaced = {name: False for name in self._own if name in PART_OF}
        self._least = Roofline(target, msgspec.structs.replace(terms, **replaced))

    def price(self, region: Region) -> Price | Rejected:
        """The price of the fastest plan that meets no STOP condition; if all meet one, of the fastest plan. The first
        of equals. The parts of a program ask for the prices of equal regions, and of such that differ in names."""
        if region not in self._priced:
            # a caller's term may depend on names and offsets
            self._priced[region] = self._best(region) if self._own else self._price_by_form(region)
        return self._priced[region]

    def _price_by_form(self, region: Region) -> Price | Rejected:
        form = canonical(at_least_offsets(region))
        if form not in self.known:
            self.known[form] = self._best(form)
        price, names = self.known[form], names_between(form, region)
        if isinstance(price, Rejected):
            reason = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), price.reason)
            return msgspec.structs.replace(price, reason=reason)
        plan = rename_plan(price.plan, names)
        return self._best(region) if plan is None else msgspec.structs.replace(price, plan=plan)

    def _best(self, region: Region) -> Price | Rejected:
        candidates = self._candidates(region)
        return candidates if isinstance(candidates, Rejected) else min(candidates, key=rank)

    def rank(self, region: Region) -> list[Price]:
        """The prices of all plans of a region, the best first; none if the region is refused."""
        candidates = self._candidates(region)
        return [] if isinstance(candidates, Rejected) else sorted(candidates, key=rank)

    def correct(self, region: Region, price: Price, resources: KernelResources, rivals: Sequence[Plan]) -> Price:
        """The price of a region's plan with the registers that the compiler reports. rivals: all of its plans."""
        work = msgspec.structs.replace(price.work, thread_registers=resources.registers)
        return self._price_of(region, price.plan, work, widest_of(rivals), (SPILLS,) if resources.spills else ())

    def price_plan(self, region: Region, plan: Plan, work: Work, rivals: Sequence[Plan]) -> Price:
        """The price of a plan that does this work. rivals: the plans of the region that the planner makes."""
        return self._price_of(region, plan, work, widest_of(rivals))

    def _candidates(self, region: Region) -> list[Price] | Rejected:
        core = self._analyse(region).core
        if not core.legal:
            return Rejected(core.reason, core.refusal or Kind.UNSUPPORTED_OP)
        plans = self._planner(region, core, self._target)
        if not plans:
            return Rejected("no plan fits the machine", Kind.RESOURCE_EXCEEDED)
        widest = widest_of(plan for plan, _ in plans)
        return [self._price_of(region, plan, work, widest) for plan, work in plans]

    def lower_bound(self, flops: float, bytes_moved: float, narrow: bool = True) -> float:
        """A time in ns that no plan can beat. What a function of the caller's replaces counts as 0."""
        return self._least.lower_bound(flops, bytes_moved, narrow)

    def _price_of(self, region: Region, plan: Plan, work: Work, widest: int, conditions: tuple[str, ...] = ()) -> Price:
        parts = self._roofline.estimate(work)
        if self._own:
            parts = with_own_terms(KernelEstimate(region, plan, work, self._target, parts), self._own)
        stop_conditions = stops(plan, work, self._target, widest) if self._terms.stop else ()
        return Price(parts.time, plan, work, parts, (*conditions, *stop_conditions))


def rank(price: Price) -> tuple[bool, bool, float]:
    """Sort key of the plans of a region: without STOP conditions, then with, then those that spill; each by time."""
    return SPILLS in price.stops, bool(price.stops), price.time_ns
