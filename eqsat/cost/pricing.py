"""The Pricer: a candidate kernel costs what its own best plan costs by §11, if it is legal at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from eqsat.cost.occupancy import stops, widest_of
from eqsat.cost.roofline import ALL_TERMS, Roofline, Terms
from ir.diagnostics import Kind
from ir.kernel.resources import KernelResources
from ir.plan.plan import Plan
from ir.poly.analysis import RegionAnalysis
from ir.poly.core import PolyCore
from ir.pricer import Price, Rejected, Work
from ir.region.region import Region
from ir.target import Target

SPILLS = "registers are spilled"
"""What a plan meets whose values the compiler could not keep in registers."""
Analyse = Callable[[Region], RegionAnalysis]
Planner = Callable[[Region, PolyCore, Target], Sequence[tuple[Plan, Work]]]


class PlanPricer:
    """Prices regions with the analyses and the planner of a code generator, handed in by the pipeline. `ordered`: all
    plans of the planner take the terms of floating-point sums in index order."""

    def __init__(
        self, target: Target, analyse: Analyse, planner: Planner, terms: Terms = ALL_TERMS, *, ordered: bool = False
    ) -> None:
        self.ordered = ordered
        self._target = target
        self._analyse = analyse
        self._planner = planner
        self._terms = terms
        self._roofline = Roofline(target, terms)

    def price(self, region: Region) -> Price | Rejected:
        """The price of the cheapest plan that no STOP condition rules out, of all where each meets one; the first of
        equals."""
        found = self._candidates(region)
        return found if isinstance(found, Rejected) else min(found, key=rank)

    def ranked(self, region: Region) -> list[Price]:
        """All plans of a region that has a price, in the order in which they are taken."""
        found = self._candidates(region)
        return [] if isinstance(found, Rejected) else sorted(found, key=rank)

    def corrected(self, price: Price, found: KernelResources, rivals: Sequence[Plan]) -> Price:
        """The price of a plan, one of its region's `rivals`, with the registers that the compiler says it takes."""
        work = msgspec.structs.replace(price.work, thread_registers=found.registers)
        return self._priced(price.plan, work, widest_of(rivals), (SPILLS,) if found.spills else ())

    def _candidates(self, region: Region) -> list[Price] | Rejected:
        core = self._analyse(region).core
        if not core.legal:
            return Rejected(core.reason, core.refusal or Kind.UNSUPPORTED_OP)
        plans = self._planner(region, core, self._target)
        if not plans:
            return Rejected("no plan fits the machine", Kind.RESOURCE_EXCEEDED)
        widest = widest_of(plan for plan, _ in plans)
        return [self._priced(plan, work, widest) for plan, work in plans]

    def lower_bound(self, flops: float, bytes_moved: float) -> float:
        """ns that no plan can beat."""
        return self._roofline.lower_bound(flops, bytes_moved)

    def _priced(self, plan: Plan, work: Work, widest: int, met: tuple[str, ...] = ()) -> Price:
        parts = self._roofline.estimate(work)
        found = stops(plan, work, self._target, widest) if self._terms.stop else ()
        return Price(parts.time, plan, work, parts, (*met, *found))


def rank(price: Price) -> tuple[bool, bool, float]:
    """Orders the plans of a region: those that spill last, those that meet a STOP condition before them, else by
    time."""
    return SPILLS in price.stops, bool(price.stops), price.time_ns
