"""Two runs side by side: what a family of rules, an extractor or a cost term is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eqsat.explanation.explain import rendered
from eqsat.explanation.explored_run import ExploredRun
from eqsat.explanation.tables import headed, plain_table
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
        """How many times the left the right is; None where the left is 0."""
        return self.right / self.left if self.left else None


class Comparison(msgspec.Struct, frozen=True):
    """names: of both runs. measures: kernels, predicted µs, e-nodes, classes, candidates, matches, seconds. only_left,
    only_right: kernels, as `output = name(inputs)`, that one run alone has. matches: how often each rule matched in
    both, where that differs."""

    names: tuple[str, str]
    measures: tuple[Measure, ...]
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    matches: dict[str, tuple[int, int]]

    def __getitem__(self, name: str) -> Measure:
        return next(each for each in self.measures if each.name == name)

    def view(self) -> Group:
        """For a terminal, a renderable of rich."""
        return _view(self)

    def __str__(self) -> str:
        return rendered(self.view())


def compare(left: ExploredRun, right: ExploredRun) -> Comparison:
    """The comparison of two runs."""
    figures, others = _figures(left), _figures(right)
    measures = tuple(Measure(name, figures[name], others[name]) for name in figures)
    on_left, on_right = (dict.fromkeys(map(_written, each.kernels)) for each in (left, right))
    rules = dict.fromkeys([*left.matches, *right.matches])
    counts = {rule: (left.matches.get(rule, 0), right.matches.get(rule, 0)) for rule in rules}
    return Comparison(
        names=_names(left, right),
        measures=measures,
        only_left=tuple(each for each in on_left if each not in on_right),
        only_right=tuple(each for each in on_right if each not in on_left),
        matches={rule: both for rule, both in counts.items() if both[0] != both[1]},
    )


def _names(left: ExploredRun, right: ExploredRun) -> tuple[str, str]:
    """What tells the runs apart, where it is what the second leaves out."""
    known, other = (each.setting.options.rules or () for each in (left, right))
    more = [each for each in other if each not in known]
    if not more or set(known) - set(other) or not all(each.startswith("-") for each in more):
        return "left", "right"
    return "with", f"without {', '.join(each[1:] for each in more)}"


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


def _written(kernel: KernelReport) -> str:
    return f"{', '.join(kernel.writes)} = {kernel.name}({', '.join(kernel.reads)})"


def _view(found: Comparison) -> Group:
    """Figures, kernels of one side, rules."""
    from rich.console import Group
    from rich.text import Text

    parts: list[object] = [headed("figures", _measures(found))]
    for name, kernels in zip(found.names, (found.only_left, found.only_right), strict=True):
        if kernels:
            parts.append(headed(f"kernels only {name}", Text("\n".join(kernels))))
    if found.matches:
        parts.append(headed("matches", _matches(found)))
    return Group(*parts)  # type: ignore[arg-type]


def _measures(found: Comparison) -> Table:
    table = plain_table("")
    for name in (*found.names, "times"):
        table.add_column(name, justify="right")
    for each in found.measures:
        digits = 0 if each.left == int(each.left) and each.right == int(each.right) else 2
        factor = "" if each.factor is None else f"{each.factor:.2f}"
        table.add_row(each.name, f"{each.left:,.{digits}f}", f"{each.right:,.{digits}f}", factor)
    return table


def _matches(found: Comparison) -> Table:
    table = plain_table("rule")
    for name in found.names:
        table.add_column(name, justify="right")
    for rule, (left, right) in sorted(found.matches.items(), key=lambda item: -abs(item[1][0] - item[1][1])):
        table.add_row(rule, f"{left:,}", f"{right:,}")
    return table
