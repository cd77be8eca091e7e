"""Seed 000 §13's log of measurements: the columns, and the row of one measured kernel."""

from __future__ import annotations

import msgspec

from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.pricer import Work

COLUMNS = ("commit", "target", "program", "kernel", "FLOPs", "Bytes", "occ", "estimate", "actual", "plan")
"""Commit: that of the source, or the version of an installed eqsat. FLOPs include recomputed ones. Times in ns. The
plan is JSON in the fields of seed 000 §8."""


class Measurement(msgspec.Struct, frozen=True):
    """A measured kernel launch. work: of one run. runs: in one call of the program; the times are those of all runs."""

    target: str
    program: str
    kernel: str
    work: Work
    plan: Plan
    estimated_ns: float
    measured_ns: float
    runs: int = 1

    def row(self, commit: str) -> tuple[str, ...]:
        """The cells below `COLUMNS`."""
        work = self.work
        flops = (work.flops + work.recomputed) * self.runs
        figures = (flops, work.bytes * self.runs, work.occupancy, self.estimated_ns, self.measured_ns)
        plan = msgspec.json.encode(plan_to_schedule(self.plan)).decode()
        return (commit, self.target, self.program, self.kernel, *(f"{figure:.6g}" for figure in figures), plan)
