"""Seed 000 §13's log of measurements: FLOPs, bytes, occupancy, estimate, actual time and plan of every measured kernel,
appended as rows to one CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from bench.covers import Launch
from bench.facts import commit
from eqsat.explanation.measurement import COLUMNS, Measurement
from ir.target import Target

NAME = "measurements.csv"
"""Name of the log file, beside the folders of the benches."""


def append(target: Target, program: str, launches: Iterable[Launch], path: Path) -> None:
    """Appends a row per launch to the file `path`; times in ns, the plan as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh, of = not path.exists(), commit()
    with path.open("a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        if fresh:
            rows.writerow(COLUMNS)
        for launch in launches:
            price, kernel = launch.price, launch.call.region.name
            measurement = Measurement(
                target.name, program, kernel, price.work, price.plan, price.time_ns, launch.measured_ns
            )
            rows.writerow(measurement.row(of))
