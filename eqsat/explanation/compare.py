"""Compares two runs, to show what a family of rules, an extractor or a cost term is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eqsat.explanation.explain import render
from eqsat.explanation.explored_run import ExploredRun
from eqsat.explanation.tables import empty_table, with_heading
from eqsat.runtime.compiled import KernelReport

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


class Measure(msgspec.Struct, frozen=True):
    """One figure of both runs."""

    name: str
    left: float
    right: float

    @property
    def factor(self) -> float | None:
        """right / left; None if left is 0."""
        return self.right / self.left if self.left else None


class Comparison(msgspec.Struct, frozen=True):
    """names: of the two runs. measures: kernels, predicted µs, e-nodes, classes, candidates, matches, seconds.
    only_left, only_right: the kernels of one run only, as `output = name(inputs)`. matches: by rule in both runs, if
    the numbers differ."""

    names: tuple[str, str]
    measures: tuple[Measure, ...]
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    matches: dict[str, tuple[int, int]]

    def __getitem__(self, name: str) -> Measure:
        return next(measure for measure in self.measures if measure.name == name)

    def view(self) -> Group:
        """A rich renderable for a terminal."""
        return _view(self)

    def __str__(self) -> str:
        return render(self.view())


def compare(left: ExploredRun, right: ExploredRun) -> Comparison:
    """The comparison of two runs."""
    left_figures, right_figures = _figures(left), _figures(right)
    measures = tuple(Measure(name, left_figures[name], right_figures[name]) for name in left_figures)
    on_left, on_right = (dict.fromkeys(map(_kernel_text, run.kernels)) for run in (left, right))
    rules = dict.fromkeys([*left.matches, *right.matches])
    counts = {rule: (left.matches.get(rule, 0), right.matches.get(rule, 0)) for rule in rules}
    return Comparison(
        names=_names(left, right),
        measures=measures,
        only_left=tuple(kernel for kernel in on_left if kernel not in on_right),
        only_right=tuple(kernel for kernel in on_right if kernel not in on_left),
        matches={rule: both for rule, both in counts.items() if both[0] != both[1]},
    )


def _names(left: ExploredRun, right: ExploredRun) -> tuple[str, str]:
    """`with` and `without RULES` if the second run only leaves out rules, else `left` and `right`."""
    rules, other_rules = (run.setting.options.rules or () for run in (left, right))
    more = [rule for rule in other_rules if rule not in rules]
    if not more or set(rules) - set(other_rules) or not all(rule.startswith("-") for rule in more):
        return "left", "right"
    return "with", f"without {', '.join(rule[1:] for rule in more)}"


def _figures(run: ExploredRun) -> dict[str, float]:
    return {
        "kernels": len(run.kernels),
        "predicted µs": run.estimated_ns / 1e3,
        "e-nodes": run.nodes,
        "classes": run.classes,
        "candidates": run.candidates,
        "matches": sum(run.matches.values()),
        "seconds": sum(run.seconds.values()),
    }


def _kernel_text(kernel: KernelReport) -> str:
    return f"{', '.join(kernel.writes)} = {kernel.name}({', '.join(kernel.reads)})"


def _view(comparison: Comparison) -> Group:
    """Tables of the figures, of kernels that only one run has, and of rules."""
    from rich.console import Group
    from rich.text import Text

    parts: list[object] = [with_heading("figures", _measures(comparison))]
    for name, kernels in zip(comparison.names, (comparison.only_left, comparison.only_right), strict=True):
        if kernels:
            parts.append(with_heading(f"kernels only {name}", Text("\n".join(kernels))))
    if comparison.matches:
        parts.append(with_heading("matches", _matches(comparison)))
    return Group(*parts)  # type: ignore[arg-type]


def _measures(comparison: Comparison) -> Table:
    table = empty_table("")
    for name in (*comparison.names, "times"):
        table.add_column(name, justify="right")
    for measure in comparison.measures:
        digits = 0 if measure.left == int(measure.left) and measure.right == int(measure.right) else 2
        factor = "" if measure.factor is None else f"{measure.factor:.2f}"
        table.add_row(measure.name, f"{measure.left:,.{digits}f}", f"{measure.right:,.{digits}f}", factor)
    return table


def _matches(comparison: Comparison) -> Table:
    table = empty_table("rule")
    for name in comparison.names:
        table.add_column(name, justify="right")
    for rule, (left, right) in sorted(comparison.matches.items(), key=lambda item: -abs(item[1][0] - item[1][1])):
        table.add_row(rule, f"{left:,}", f"{right:,}")
    return table
