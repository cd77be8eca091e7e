"""A run and a comparison of two for a terminal: tables and growth curves of rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqsat.explanation.explain import kernel_table
from eqsat.explanation.price_text import micros
from ir.grammar import with_count

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from eqsat.explanation.compare import Comparison
    from eqsat.explanation.exploration import Exploration

BARS = " ▁▂▃▄▅▆▇█"
WIDEST = 60
"""Bars of one curve."""


def exploration_group(run: Exploration) -> Group:
    """Summary, phases, growth, rules, kernels."""
    from rich.console import Group
    from rich.text import Text

    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in run.seconds.items())
    summary = (
        f"{with_count(run.uops, 'uop')}, {with_count(run.kernels_before, 'kernel')} before and "
        f"{len(run.kernels)} after; {with_count(run.nodes, 'e-node')} in "
        f"{with_count(run.classes, 'class', 'classes')}, {with_count(run.candidates, 'candidate')};\n"
        f"{micros(run.estimated_before_ns)} before and {micros(run.estimated_ns)} after, estimated for "
        f"{run.setting.target.name}; {seconds}\n"
    )
    return Group(
        Text(summary),
        _headed("phases", phase_table(run)),
        _headed("growth", _curve(run)),
        _headed("rules", rule_table(run)),
        _headed("kernels", kernel_table(run.kernels)),
    )


def comparison_group(found: Comparison) -> Group:
    """Figures, kernels of one side, rules."""
    from rich.console import Group
    from rich.text import Text

    parts: list[object] = [_headed("figures", _measures(found))]
    for name, kernels in zip(found.names, (found.only_left, found.only_right), strict=True):
        if kernels:
            parts.append(_headed(f"kernels only {name}", Text("\n".join(kernels))))
    if found.matches:
        parts.append(_headed("matches", _matches(found)))
    return Group(*parts)  # type: ignore[arg-type]


def phase_table(run: Exploration) -> Table:
    """One row per phase."""
    table = _table("phase", "families that join")
    for name in ("iterations", "matches", "e-nodes", "classes", "ms", "ended by"):
        table.add_column(name, justify="right")
    for place, phase in enumerate(run.phases):
        cells = (phase.iterations, sum(phase.matches.values()), phase.nodes, phase.classes, phase.seconds * 1e3)
        figures = [f"{cell:,.0f}" for cell in cells]
        table.add_row(str(place + 1), ", ".join(phase.joined), *figures, str(phase.stop).replace("_", " "))
    return table


def rule_table(run: Exploration) -> Table:
    """One row per rule that matched, the most frequent first: how often, in which phase."""
    table = _table("rule", "family")
    for name in ("matches", *(f"phase {place + 1}" for place in range(len(run.phases)))):
        table.add_column(name, justify="right")
    families = {rule.name: rule.family for rule in run.rules}
    for rule, count in sorted(run.matches.items(), key=lambda item: (-item[1], item[0])):
        by_phase = [phase.matches.get(rule, 0) for phase in run.phases]
        table.add_row(rule, families[rule], f"{count:,}", *(f"{each:,}" if each else "" for each in by_phase))
    return table


def _headed(title: str, content: object) -> Group:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    return Group(Text(title, style="bold"), Padding(content, (0, 0, 1, 2)))  # type: ignore[arg-type]


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table


def _curve(run: Exploration) -> Table:
    """E-nodes and classes over the iterations, as bars."""
    table = _table("", "over the iterations")
    table.add_column("from", justify="right")
    table.add_column("to", justify="right")
    for name, counts in (
        ("e-nodes", [growth.nodes for growth in run.iterations]),
        ("classes", [growth.classes for growth in run.iterations]),
    ):
        if counts:
            table.add_row(name, bars(counts), f"{counts[0]:,}", f"{counts[-1]:,}")
    return table


def bars(counts: list[int]) -> str:
    """A curve of block characters, `WIDEST` at most, from 0 to the greatest."""
    step = max(1, -(-len(counts) // WIDEST))
    shown = [max(counts[start : start + step]) for start in range(0, len(counts), step)]
    return "".join(BARS[round((len(BARS) - 1) * each / max(*shown, 1))] for each in shown)


def _measures(found: Comparison) -> Table:
    table = _table("")
    for name in (*found.names, "times"):
        table.add_column(name, justify="right")
    for each in found.measures:
        digits = 0 if each.left == int(each.left) and each.right == int(each.right) else 2
        factor = "" if each.factor is None else f"{each.factor:.2f}"
        table.add_row(each.name, f"{each.left:,.{digits}f}", f"{each.right:,.{digits}f}", factor)
    return table


def _matches(found: Comparison) -> Table:
    table = _table("rule")
    for name in found.names:
        table.add_column(name, justify="right")
    for rule, (left, right) in sorted(found.matches.items(), key=lambda item: -abs(item[1][0] - item[1][1])):
        table.add_row(rule, f"{left:,}", f"{right:,}")
    return table
