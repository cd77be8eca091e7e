"""The results of GPUs: one file per device, complete after every case, so that an interrupted run can continue; and the
table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.device.facts import device_key
from bench.facts import RESULTS
from ir.host.atomic_file import write_atomically

Row = dict[str, Any]
SAME = ("device", "cuda", "versions", "source")
"""Rows of an earlier run are valid if these facts are the same."""


class Results:
    """The measurements of one device: facts, ceilings, a row for every case, a row for every step of a session.

    Existing results are forgotten if `again`, or if they are of another device, CUDA, version or source.
    """

    def __init__(self, facts: Mapping[str, Any], folder: Path = RESULTS, again: bool = False) -> None:
        self.path = folder / f"gpu_{device_key(facts)}.json"
        self.facts = dict(facts)
        self.ceilings: dict[str, float] = {}
        self.rows: dict[str, Row] = {}
        self.steps: dict[str, Row] = {}
        known = None if again else _read(self.path)
        if known and all(known["facts"].get(name) == self.facts.get(name) for name in SAME):
            self.ceilings = known["ceilings"]
            self.rows = {row["case"]: row for row in known["rows"]}
            self.steps = {row["step"]: row for row in known["steps"]}

    def is_done(self, case: str) -> bool:
        """Whether a case has times; a failed case is tried again."""
        return "times" in self.rows.get(case, {})

    def keep(self, row: Row) -> None:
        """Adds a case's row and writes the file."""
        self.rows[row["case"]] = row
        self.write()

    def keep_step(self, row: Row) -> None:
        """Adds a step's row and writes the file."""
        self.steps[row["step"]] = row
        self.write()

    def write(self) -> None:
        document = {
            "facts": self.facts,
            "ceilings": self.ceilings,
            "rows": list(self.rows.values()),
            "steps": list(self.steps.values()),
        }
        write_atomically(self.path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())


def show(rows: Sequence[Row], title: str) -> None:
    """Prints the rows as a table, and below it the reasons for failed cases and absent peers."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in ("case", "µs", "TFLOP/s", "GB/s", "% of ceiling", "best peer", "µs ", "eqsat is"):
        table.add_column(name, justify="left" if name in ("case", "best peer") else "right", overflow="fold")
    for row in rows:
        table.add_row(*cells(row))
    console = Console(width=None if Console().is_terminal else 150)
    console.print(table)
    for reason in (*failures(rows), *missing(rows)):
        console.print(reason, highlight=False)


def cells(row: Row) -> list[str]:
    """A row of the table."""
    if "times" not in row:
        return [row["case"], "failed", *[""] * 6]
    best = row["best peer"]
    peer = [best, f"{row['times'][best]['us']:,.1f}", f"{row['ratio']:.2f}× as fast"] if best else ["none", "", ""]
    figures = [f"{row['times']['eqsat']['us']:,.1f}", f"{row['TFLOP/s']:.1f}", f"{row['GB/s']:,.0f}"]
    share = "" if row["of ceiling"] is None else f"{100 * row['of ceiling']:.0f}"
    return [row["case"], *figures, share, *peer]


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


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return (
        document if isinstance(document, dict) and {"facts", "ceilings", "rows", "steps"} <= document.keys() else None
    )
