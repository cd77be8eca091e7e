"""The committed table: how the samples of each operator end, by dtype."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from filelock import FileLock

from bench.facts import RESULTS
from bench.opinfo.run_samples import RIGHT, UNSUPPORTED, Outcome

PATH = RESULTS / "opinfo.json"

HOW = (
    "Right samples were computed by compiled kernels on a CPU, the way of torch.compile, up to 40 samples of an "
    "operator in one program, and compared with eager. Operators without a row were not run."
)

Table = dict[str, Any]
"""How the samples were run; and per title and operator the number of samples by their outcome and reason."""


def title(element: str, step: int) -> str:
    """What the rows of a run count: all samples of a dtype, or every n-th sample of each operator."""
    return element if step == 1 else f"{element}, samples 0, {step}, {2 * step}, … of each operator"


def read() -> Table:
    table: Table = json.loads(PATH.read_text()) if PATH.exists() else {}
    return table


def counts(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """The row of an operator: its samples, those that are right, and for each other outcome the samples by reason."""
    listed = list(outcomes)
    row: dict[str, Any] = {"samples": len(listed), RIGHT: sum(outcome.kind == RIGHT for outcome in listed)}
    for kind, reason in listed:
        if kind != RIGHT:
            short = reason if kind == UNSUPPORTED else reason[:80]
            row.setdefault(kind, Counter())[short] += 1
    return {key: dict(value) if isinstance(value, Counter) else value for key, value in row.items()}


def write(heading: str, name: str, row: dict[str, Any]) -> None:
    """Puts the row into the file; other processes may write other rows at the same time."""
    with FileLock(Path(tempfile.gettempdir()) / "eqsat_opinfo.lock"):
        table = read()
        rows = {**table.get(heading, {}), name: row}
        table[heading] = dict(sorted(rows.items()))
        table = {"how": HOW, **table}
        PATH.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
