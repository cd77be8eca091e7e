"""A run for a terminal: rich tables, and curves of growth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqsat.explanation.explain import kernel_table
from eqsat.explanation.explored_run import ExploredRun
from eqsat.explanation.price_text import micros
from eqsat.explanation.tables import empty_table, with_heading
from ir.grammar import with_count

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


BARS = " ▁▂▃▄▅▆▇█"
WIDEST = 48
"""Bars of a curve, at most."""


def exploration_group(run: ExploredRun) -> Group:
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
        with_heading("phases", phase_table(run)),
        with_heading("growth", _curve(run)),
        with_heading("rules", rule_table(run)),
        with_heading("kernels", kernel_table(run.kernels)),
    )


def phase_table(run: ExploredRun) -> Table:
    """One row per phase."""
    table = empty_table("phase", "families that join")
    for name in ("iterations", "matches", "e-nodes", "classes", "ms", "ended by"):
        table.add_column(name, justify="right", no_wrap=True)
    for place, phase in enumerate(run.phases):
        cells = (phase.iterations, sum(phase.matches.values()), phase.nodes, phase.classes, phase.seconds * 1e3)
        figures = [f"{cell:,.0f}" for cell in cells]
        table.add_row(str(place + 1), ", ".join(phase.joined), *figures, str(phase.stop).replace("_", " "))
    return table


def rule_table(run: ExploredRun) -> Table:
    """One row per rule that matched, the most frequent first: how often, in which phase."""
    table = empty_table("rule", "family")
    for name in ("matches", *("phase 1" if place == 0 else f"{place + 1}" for place in range(len(run.phases)))):
        table.add_column(name, justify="right", no_wrap=True)
    families = {rule.name: rule.family for rule in run.rules}
    for rule, count in sorted(run.matches.items(), key=lambda item: (-item[1], item[0])):
        by_phase = [phase.matches.get(rule, 0) for phase in run.phases]
        table.add_row(rule, families[rule], f"{count:,}", *(f"{count_:,}" if count_ else "" for count_ in by_phase))
    return table


def _curve(run: ExploredRun) -> Table:
    """Bars of the e-nodes and classes after each iteration."""
    table = empty_table("", "over the iterations")
    table.add_column("from", justify="right", no_wrap=True)
    table.add_column("to", justify="right", no_wrap=True)
    for name, counts in (
        ("e-nodes", [growth.nodes for growth in run.iterations]),
        ("classes", [growth.classes for growth in run.iterations]),
    ):
        if counts:
            table.add_row(name, bars(counts), f"{counts[0]:,}", f"{counts[-1]:,}")
    return table


def bars(counts: list[int]) -> str:
    """A curve of at most `WIDEST` block characters, scaled from 0 to the greatest count."""
    step = max(1, -(-len(counts) // WIDEST))
    shown = [max(counts[start : start + step]) for start in range(0, len(counts), step)]
    return "".join(BARS[round((len(BARS) - 1) * count / max(*shown, 1))] for count in shown)
