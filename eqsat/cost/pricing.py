"""The Pricer: a candidate kernel costs what its own best plan costs by §11, if it is legal at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from eqsat.cost.occupancy import stops
from eqsat.cost.roofline import ALL_TERMS, Roofline, Terms
from ir.diagnostics import Kind
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.pricer import Price, Rejected, Work
from ir.region import Region
from ir.target import Target


class Facts(Protocol):
    """What legality is decided on, and planning starts from."""

    @property
    def core(self) -> PolyCore: ...


Analyse = Callable[[Region], Facts]
Planner = Callable[[Region, PolyCore, Target], Sequence[tuple[Plan, Work]]]


class PlanPricer:
    """Prices regions with the analyses and the planner of a code generator, handed in by the pipeline."""

    def __init__(self, target: Target, analyse: Analyse, planner: Planner, terms: Terms = ALL_TERMS) -> None:
        self._target = target
        self._analyse = analyse
        self._planner = planner
        self._terms = terms
        self._roofline = Roofline(target, terms)

    def price(self, region: Region) -> Price | Rejected:
        """The price of the cheapest plan that no STOP condition rules out, of all where each meets one; the first of
        equals."""
        core = self._analyse(region).core
        if not core.legal:
            return Rejected(core.reason, core.refusal or Kind.UNSUPPORTED_OP)
        plans = self._planner(region, core, self._target)
        if not plans:
            return Rejected("no plan fits the machine", Kind.RESOURCE_EXCEEDED)
        if not self._terms.stop:
            return min((self._priced(plan, work) for plan, work in plans), key=_time)
        widest = max(plan.vectorize.width if plan.vectorize else 1 for plan, _ in plans)
        priced = [self._priced(plan, work, stops(plan, work, self._target, widest)) for plan, work in plans]
        return min([each for each in priced if not each.stops] or priced, key=_time)

    def lower_bound(self, flops: float, bytes_moved: float) -> float:
        """ns that no plan can beat."""
        return self._roofline.lower_bound(flops, bytes_moved)

    def _priced(self, plan: Plan, work: Work, met: tuple[str, ...] = ()) -> Price:
        parts = self._roofline.estimate(work)
        return Price(parts.time, plan, work, parts, met)


def _time(price: Price) -> float:
    return price.time_ns
