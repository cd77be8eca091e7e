"""Seed 000 §13's log of measurements: FLOPs, bytes, occupancy, estimate, actual and plan of every kernel measured, as
rows that are appended to one CSV file."""

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
"""The log, beside the folders of the benches."""
HEAD = ("commit", "target", "program", "kernel", "FLOPs", "Bytes", "occ", "estimate", "actual", "plan")


def append(target: Target, program: str, launches: Iterable[Launch], path: Path) -> None:
    """A row per launch at the end of the file `path`; times in ns, the plan as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh, of = not path.exists(), commit()
    with path.open("a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        if fresh:
            rows.writerow(HEAD)
        for each in launches:
            work, plan = each.price.work, msgspec.json.encode(plan_to_schedule(each.price.plan)).decode()
            moved = work.bytes
            figures = (work.flops + work.recomputed, moved, work.occupancy, each.price.time_ns, each.measured_ns)
            rows.writerow((of, target.name, program, each.call.region.name, *(f"{n:.6g}" for n in figures), plan))
