"""What came of one optimization, step by step, as plain data: phases, iterations, rules, kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from eqsat.egraph.stop import Stop
from eqsat.explanation.history import History
from eqsat.explanation.setting import Setting
from eqsat.extraction.kernel_term import KernelTerm
from eqsat.failure.internal_error import reports_all
from eqsat.failure.reproducer_calls import of_exploration
from eqsat.runtime.compiled import KernelReport
from ir.diagnostics import jsonable
from ir.module.module import KernelCall
from ir.pricer import Price
from ir.region.order import Order
from ir.serde import to_builtins
from ir.term.rule import Rule


class IterationReport(msgspec.Struct, frozen=True):
    """One iteration: its phase and its number in that, from 0 on; how often each rule matched in it; the e-nodes and
    classes after it; its seconds of wall clock."""

    phase: int
    iteration: int
    matches: dict[str, int]
    nodes: int
    classes: int
    seconds: float


class PhaseReport(msgspec.Struct, frozen=True):
    """One phase: the families that ran, those of them that ran for the first time, why it ended, iterations, how often
    each rule matched, e-nodes and classes at its end, seconds of wall clock."""

    families: tuple[str, ...]
    joined: tuple[str, ...]
    stop: Stop
    iterations: int
    matches: dict[str, int]
    nodes: int
    classes: int
    seconds: float


@reports_all(of_exploration)
@dataclass(frozen=True)
class ExploredRun:
    """A whole run.

    uops: of the graph. kernels_before: one a uop. nodes, classes: of the saturated e-graph. candidates: that extraction
    considered. Times in ns: `estimated_before_ns` bounds the program as it was written, `estimated_ns` is the sum of
    the kernels'. orders: of the buffers that are not row-major. seconds: of wall clock, by stage.
    """

    setting: Setting
    uops: int
    kernels_before: int
    phases: tuple[PhaseReport, ...]
    iterations: tuple[IterationReport, ...]
    rules: tuple[Rule, ...]
    nodes: int
    classes: int
    candidates: int
    estimated_before_ns: float
    kernels: tuple[KernelReport, ...]
    prices: tuple[Price, ...]
    calls: tuple[KernelCall, ...]
    orders: Mapping[str, Order]
    terms: tuple[KernelTerm, ...]
    history: History
    seconds: Mapping[str, float]

    @property
    def estimated_ns(self) -> float:
        """The predicted time of one call."""
        return sum(kernel.estimated_ns for kernel in self.kernels)

    @property
    def matches(self) -> dict[str, int]:
        """Rule → how often it matched, those that did."""
        found: dict[str, int] = {}
        for phase in self.phases:
            for rule, count in phase.matches.items():
                found[rule] = found.get(rule, 0) + count
        return found

    @property
    def matches_by_family(self) -> dict[str, int]:
        """The same by family."""
        families = {rule.name: rule.family for rule in self.rules}
        found: dict[str, int] = {}
        for rule, count in self.matches.items():
            found[families[rule]] = found.get(families[rule], 0) + count
        return found

    def data(self) -> dict[str, Any]:
        """All of it but the terms, as JSON-ready data."""
        told = ("uops", "kernels_before", "nodes", "classes", "candidates", "estimated_before_ns", "estimated_ns")
        data = {name: jsonable(getattr(self, name)) for name in told}
        data["seconds"] = dict(self.seconds)
        for name in ("phases", "iterations", "kernels"):
            data[name] = [to_builtins(each) for each in getattr(self, name)]
        return data
