"""The results of a GPU for people: the tests by group, and the cases beside their peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.gpu.journal import OUTCOMES, Journal
from bench.gpu.results import Results, Row

PEERS = ("torch", "torch.compile", "triton", "cuDNN attention", "flash-attn")
"""In the order of their columns; "torch" is cuBLAS, cuDNN or scaled_dot_product_attention."""


def show_session(results: Results) -> None:
    """Prints the steps, the outcomes of the tests by group, and the cases."""
    console = _console()
    steps = Table(title=title(results.facts["device"], results.ceilings), title_justify="left")
    for name in ("step", "result", "tests", *OUTCOMES):
        steps.add_column(name, justify="right" if name in OUTCOMES else "left", overflow="fold")
    wrong: list[str] = []
    for row in results.steps.values():
        groups = Journal(row.get("outcomes", {}), row.get("kernels", {})).groups()
        steps.add_row(row["step"], _verdict(row), *[""] * (1 + len(OUTCOMES)))
        for group, counts in groups.items():
            steps.add_row("", "", group.rpartition("/")[2], *(str(counts[outcome]) for outcome in OUTCOMES))
            wrong += counts["wrong"]
    console.print(steps)
    for line in wrong:
        console.print(line, highlight=False, markup=False)
    show(list(results.rows.values()), "cases")


def _verdict(row: Mapping[str, Any]) -> str:
    if "skipped" in row:
        return f"skipped, {row['skipped']}"
    return f"{'passed' if row['passed'] else 'failed'} in {row['seconds']} s"


def title(device: str, rates: Mapping[str, float]) -> str:
    """The device and its ceilings."""
    if not rates:
        return f"{device}, whose ceilings were not measured"
    memory, products = rates["bytes_per_s"] / 1e9, rates["flops_per_s"] / 1e12
    return f"{device}: {memory:,.0f} GB/s by a kernel of ours, {products:,.0f} TFLOP/s of bf16"


def show(rows: Sequence[Row], heading: str) -> None:
    """Prints the rows as a table, and below it the reasons for failed cases and absent peers."""
    table = Table(title=heading, title_justify="left")
    peers = [peer for peer in PEERS if any(peer in row.get("times", {}) for row in rows)]
    for name in ("case", "µs", "TFLOP/s", "GB/s", "% of ceiling", "eqsat is", *(f"{peer} µs" for peer in peers)):
        table.add_column(name, justify="left" if name in ("case", "eqsat is") else "right", overflow="fold")
    for row in rows:
        table.add_row(*cells(row, peers))
    console = _console()
    console.print(table)
    for reason in (*failures(rows), *missing(rows)):
        console.print(reason, highlight=False, markup=False)


def cells(row: Row, peers: Sequence[str]) -> list[str]:
    """A row of the table, with the times of these peers."""
    if "times" not in row:
        return [row["case"], "failed", *[""] * (4 + len(peers))]
    times, best = row["times"], row["best peer"]
    share = "" if row["of ceiling"] is None else f"{100 * row['of ceiling']:.0f}"
    beside = f"{row['ratio']:.2f}× as fast as {best}" if best else "alone"
    figures = [f"{times['eqsat']['us']:,.1f}", f"{row['TFLOP/s']:.1f}", f"{row['GB/s']:,.0f}", share, beside]
    return [row["case"], *figures, *(f"{times[peer]['us']:,.1f}" if peer in times else "" for peer in peers)]


def failures(rows: Sequence[Row]) -> list[str]:
    """ "case: reason" of the cases without times."""
    return [f"{row['case']}: {row.get('failed', 'no reason is known')}" for row in rows if "times" not in row]


def missing(rows: Sequence[Row]) -> list[str]:
    """ "peer: reason (n cases)", once per peer and reason."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        for peer in row.get("absent", {}).items():
            counts[peer] = counts.get(peer, 0) + 1
    return [f"{peer} left out of {count} cases: {reason}" for (peer, reason), count in counts.items()]


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 170)
