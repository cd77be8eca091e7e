"""The result of one optimization, step by step, as plain data: phases, iterations, rules, kernels."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from eqsat.egraph.stop import Stop
from eqsat.egraph.view import EGraphView
from eqsat.egraph.view_around import view_around
from eqsat.explanation.egraph_files import write_egraph
from eqsat.explanation.history import History
from eqsat.explanation.setting import Setting
from eqsat.failure.internal_error import reports_all
from eqsat.failure.reproducer_calls import of_exploration
from eqsat.options import check_path
from eqsat.runtime.compiled import KernelReport
from eqsat.runtime.kernel_term import KernelTerm
from ir.diagnostics import Kind, fail, jsonable
from ir.module.module import KernelCall, Module
from ir.pricer import Price
from ir.region.order import Order
from ir.serde import to_builtins
from ir.term.rule import Rule


class IterationReport(msgspec.Struct, frozen=True):
    """One iteration. iteration: its number within the phase, from 0 on. matches: by rule. nodes, classes: of the
    e-graph after it. seconds: wall time."""

    phase: int
    iteration: int
    matches: dict[str, int]
    nodes: int
    classes: int
    seconds: float


class PhaseReport(msgspec.Struct, frozen=True):
    """One phase. families: the rules that ran; joined: those that ran for the first time. stop: why it ended. matches:
    by rule. nodes, classes: of the e-graph at its end. seconds: wall time."""

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

    uops: of the graph. kernels_before: one per uop. nodes, classes: of the saturated e-graph. candidates: that
    extraction considered. estimated_before_ns: a lower bound on the time of the program as written. estimated_ns: the
    sum over the kernels. module: the kernels as they run. seconds: wall time by stage.
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
    module: Module
    terms: tuple[KernelTerm, ...]
    history: History
    seconds: Mapping[str, float]

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """The kernel call of each launch."""
        return self.module.running

    @property
    def orders(self) -> Mapping[str, Order]:
        """The orders of the buffers that are not row-major."""
        return self.module.orders

    @property
    def estimated_ns(self) -> float:
        """The predicted time of one call."""
        return sum(kernel.estimated_ns for kernel in self.kernels)

    @property
    def matches(self) -> dict[str, int]:
        """How often each rule matched; rules without a match are left out."""
        counts: dict[str, int] = {}
        for phase in self.phases:
            for rule, count in phase.matches.items():
                counts[rule] = counts.get(rule, 0) + count
        return counts

    @property
    def matches_by_family(self) -> dict[str, int]:
        """How often the rules of each family matched."""
        families = {rule.name: rule.family for rule in self.rules}
        counts: dict[str, int] = {}
        for rule, count in self.matches.items():
            counts[families[rule]] = counts.get(families[rule], 0) + count
        return counts

    def egraph(self, around: str | int | None = None, steps: int = 0) -> EGraphView:
        """The saturated e-graph, or a part of it.

        Args:
            around: a class by its number; a kernel, by its name or by a buffer that it writes, with the classes that it
                can be built from; or a uop, with the class of its value.
            steps: edges to go on from there, towards operands and readers.

        Raises:
            EqsatError: InvalidOption, if nothing has this name.
        """
        view = self.history.view
        return view if around is None else view_around(view, self._centres(around), steps)

    def write_egraph(self, path: str | os.PathLike[str], around: str | int | None = None, steps: int = 0) -> None:
        """Writes the e-graph, or a part of it as `egraph` takes it: to .json in the format of egraph-serialize, to .dot
        or to .svg.

        Raises:
            EqsatError: InvalidOption, if nothing has this name, or for another suffix; ResourceExceeded if the part is
                too large to draw.
        """
        view = self.egraph(around, steps)
        outputs = [uop for uop in self.setting.bound.graph.outputs if uop in view.tiny]
        write_egraph(view, outputs or list(view.tiny)[-1:], check_path(path))

    def _centres(self, around: str | int) -> Collection[int]:
        view = self.history.view
        if isinstance(around, int) and around in view.classes:
            return (around,)
        for call, term in zip(self.calls, self.terms, strict=True):
            if not term.is_copy and (around == call.name or around in call.writes):
                inside = {view.tiny[uop] for uop in call.uops}
                return set(self.history.classes_below([self.history.classes[name] for name in call.writes], inside))
        if around in view.tiny:
            return (view.tiny[str(around)],)
        message = f"there is no class, kernel or uop {around!r} in the e-graph"
        hint = ", ".join([*(call.name for call in self.calls[:4]), *list(view.tiny)[:4]])
        fail(Kind.INVALID_OPTION, "explore", message, hint=hint)

    def data(self) -> dict[str, Any]:
        """All but the terms, as JSON-ready data."""
        names = ("uops", "kernels_before", "nodes", "classes", "candidates", "estimated_before_ns", "estimated_ns")
        data = {name: jsonable(getattr(self, name)) for name in names}
        data["seconds"] = dict(self.seconds)
        for name in ("phases", "iterations", "kernels"):
            data[name] = [to_builtins(report) for report in getattr(self, name)]
        return data
