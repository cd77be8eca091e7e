"""The Pricer: a candidate kernel costs what its own best plan costs by §11, if it is legal at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from eqsat.cost.roofline import ALL_TERMS, Terms, estimate, lower_bound_ns
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

    def price(self, region: Region) -> Price | Rejected:
        """The cheapest plan's price; the first of equals."""
        core = self._analyse(region).core
        if not core.legal:
            return Rejected(core.reason, core.refusal or Kind.UNSUPPORTED_OP)
        priced = [self._priced(plan, work) for plan, work in self._planner(region, core, self._target)]
        if not priced:
            return Rejected("no plan fits the machine", Kind.RESOURCE_EXCEEDED)
        return min(priced, key=lambda price: price.time_ns)

    def lower_bound(self, flops: float, bytes_moved: float) -> float:
        """ns that no plan can beat."""
        return lower_bound_ns(flops, bytes_moved, self._target, self._terms)

    def _priced(self, plan: Plan, work: Work) -> Price:
        time = estimate(work, self._target, self._terms)
        return Price(time.time_ns, plan, work, time.bound)
