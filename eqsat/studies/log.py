"""Seed 000 §13's log of measurements: FLOPs, bytes, occupancy, estimate, actual time and plan of every measured kernel,
appended as rows to one CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from eqsat.explanation.measurement import COLUMNS, Measurement

NAME = "measurements.csv"
"""Name of the log file, beside the folders of the studies."""


def append(measurements: Iterable[Measurement], path: Path, commit: str) -> None:
    """Appends a row per measurement to the file `path`. commit: of eqsat, or its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        if fresh:
            rows.writerow(COLUMNS)
        rows.writerows(measurement.row(commit) for measurement in measurements)
