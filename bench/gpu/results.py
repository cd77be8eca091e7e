"""The results of GPUs: one file per device, complete after every case, so that an interrupted run can continue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.device.facts import device_key
from bench.facts import RESULTS
from ir.host.atomic_file import write_atomically

Row = dict[str, Any]
SAME = ("device", "cuda", "versions", "source")
"""Rows of an earlier run are valid if these facts are the same."""
TUNED = ", autotuned"
"""Suffix of the names of rows whose plans were chosen by measurement."""


class Results:
    """The measurements of one device: facts, ceilings, a row for every case, a row for every step of a session.

    The results in the folder, or else those in `bench/results`, where the results of an earlier slice were put, are
    forgotten if `again`, or if they are of another device, CUDA, version or source.
    """

    def __init__(self, facts: Mapping[str, Any], folder: Path = RESULTS, again: bool = False) -> None:
        self.path = folder / f"gpu_{device_key(facts)}.json"
        self.facts = dict(facts)
        self.ceilings: dict[str, float] = {}
        self.rows: dict[str, Row] = {}
        self.steps: dict[str, Row] = {}
        known = None if again else _read(self.path) or _read(RESULTS / self.path.name)
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


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return (
        document if isinstance(document, dict) and {"facts", "ceilings", "rows", "steps"} <= document.keys() else None
    )
