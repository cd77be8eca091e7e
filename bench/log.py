"""Seed 000 §13's log of measurements: FLOPs, bytes, occupancy, estimate, actual time and plan of every measured kernel,
appended as rows to one CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bench.covers import Launch
from bench.facts import commit
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.target import Target

NAME = "measurements.csv"
"""Name of the log file, beside the folders of the benches."""
HEAD = ("commit", "target", "program", "kernel", "FLOPs", "Bytes", "occ", "estimate", "actual", "plan")


def append(target: Target, program: str, launches: Iterable[Launch], path: Path) -> None:
    """Appends a row per launch to the file `path`; times in ns, the plan as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh, of = not path.exists(), commit()
    with path.open("a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        if fresh:
            rows.writerow(HEAD)
        for launch in launches:
            work, plan = launch.price.work, msgspec.json.encode(plan_to_schedule(launch.price.plan)).decode()
            flops = work.flops + work.recomputed
            figures = (flops, work.bytes, work.occupancy, launch.price.time_ns, launch.measured_ns)
            rows.writerow((of, target.name, program, launch.call.region.name, *(f"{n:.6g}" for n in figures), plan))
