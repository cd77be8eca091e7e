"""What came of one optimization, step by step, as plain data: phases, iterations, rules, kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from eqsat.egraph.stop import Stop
from eqsat.explanation.chain import Chain, chain_at
from eqsat.explanation.setting import Setting
from eqsat.explanation.which import Wanted, output_of
from eqsat.extraction.kernel_term import KernelTerm
from eqsat.failure.internal_error import reports_all
from eqsat.failure.reproducer_calls import of_exploration
from eqsat.runtime.compiled import KernelReport
from ir.diagnostics import jsonable
from ir.module import Call
from ir.pricer import Price
from ir.region_order import Order
from ir.rule import Rule
from ir.serde import to_builtins

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Group

    from eqsat.explanation.compare import Comparison
    from eqsat.explanation.history import History
    from eqsat.explanation.why_not import WhyNot


class Growth(msgspec.Struct, frozen=True):
    """One iteration: its phase and its number in that, from 0 on; how often each rule matched in it; the e-nodes and
    classes after it; its seconds of wall clock."""

    phase: int
    iteration: int
    matches: dict[str, int]
    nodes: int
    classes: int
    seconds: float


class Phase(msgspec.Struct, frozen=True):
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
class Exploration:
    """A whole run.

    uops: of the graph. kernels_before: one a uop. nodes, classes: of the saturated e-graph. candidates: that extraction
    considered. Times in ns: `estimated_before_ns` bounds the program as it was written, `estimated_ns` is the sum of
    the kernels'. orders: of the buffers that are not row-major. seconds: of wall clock, by stage.
    """

    setting: Setting
    uops: int
    kernels_before: int
    phases: tuple[Phase, ...]
    iterations: tuple[Growth, ...]
    rules: tuple[Rule, ...]
    nodes: int
    classes: int
    candidates: int
    estimated_before_ns: float
    kernels: tuple[KernelReport, ...]
    prices: tuple[Price, ...]
    calls: tuple[Call, ...]
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

    def without(self, *names: str) -> Exploration:
        """The same run without these families or rules. Raises EqsatError, InvalidOption, for a name that is none."""
        from eqsat.explanation.explore import Explorer, without

        return Explorer(without(self.setting, names)).finish()

    def compare(self, other: Exploration) -> Comparison:
        """This run beside another: sizes, times, rules, and the kernels that only one of them has."""
        from eqsat.explanation.compare import compare

        return compare(self, other)

    def chain(self, kernel: Wanted) -> Chain:
        """The rewrites that led to a kernel; named by its place, its report, a buffer that it writes, or its name. Of
        several outputs the one that is named, else the first."""
        return chain_at(self, *output_of(self.kernels, kernel))

    def why_not(self, first: Wanted, second: Wanted) -> WhyNot:
        """Why two kernels are not one."""
        from eqsat.explanation.why_not import why_not

        return why_not(self, first, second)

    def data(self) -> dict[str, Any]:
        """All of it but the terms, as JSON-ready data."""
        told = ("uops", "kernels_before", "nodes", "classes", "candidates", "estimated_before_ns", "estimated_ns")
        data = {name: jsonable(getattr(self, name)) for name in told}
        data["seconds"] = dict(self.seconds)
        for name in ("phases", "iterations", "kernels"):
            data[name] = [to_builtins(each) for each in getattr(self, name)]
        return data

    def view(self) -> Group:
        """The run for a terminal, a renderable of rich."""
        from eqsat.explanation.exploration_text import exploration_group

        return exploration_group(self)

    def html(self, path: str | Path, title: str = "eqsat explore") -> None:
        """Write all of it as one page that needs nothing else, to be opened in a browser.

        Raises:
            EqsatError: InvalidOption where the file cannot be written.
        """
        from eqsat.explanation.html_page import write_page

        write_page(self, path, title)

    def __str__(self) -> str:
        from eqsat.explanation.explain import rendered

        return rendered(self.view())
