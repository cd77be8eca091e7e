"""A profile: the measured kernels of a program as a table, as rows, as a CSV file and as a Chrome trace."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from eqsat.explanation.measurement import COLUMNS, Measurement
from eqsat.explanation.notebook import KernelReports
from eqsat.explanation.price_text import micros
from eqsat.options import check_path
from eqsat.runtime.compiled import Compiled, KernelReport
from eqsat.version import __version__
from ir.host.output_file import write_output
from ir.module.tag_text import tag_text
from ir.plan.plan import Plan
from ir.target import Target

if TYPE_CHECKING:
    from rich.table import Table

STAGE = "profile"
NOMINAL = "cpu"
"""The name of the CPU target with nominal figures."""
FAR_OFF = 2.0
"""A quotient of estimated and measured time, beyond which the estimates are of no use on this machine."""


class Profile(KernelReports):
    """The reports of a program's kernels with measured times, in the order of their launches.

    `print(profile)` shows a table, and so does a notebook. `rows()` are data for pandas.
    """

    target: Target
    plans: tuple[Plan, ...]
    """Of each launch."""

    @classmethod
    def of(cls, compiled: Compiled, measured: Sequence[KernelReport]) -> Profile:
        """The profile of a program whose kernels were measured: one report per launch."""
        profile = cls(measured)
        profile.target = compiled.artifact.target
        profile.plans = tuple(price.plan for price in compiled.artifact.prices)
        return profile

    @property
    def estimated_ns(self) -> float:
        """The sum of the estimates."""
        return sum(kernel.estimated_ns for kernel in self)

    @property
    def measured_ns(self) -> float:
        """The sum of the measured times."""
        return sum(kernel.measured_ns or 0.0 for kernel in self)

    def view(self) -> Table:
        """The table as a renderable of rich."""
        return profile_table(self)

    @property
    def hint(self) -> str:
        """Advice where the estimates are off by more than `FAR_OFF` in all, and measured figures of the machine would
        bring them nearer; else empty."""
        factor = self.estimated_ns / max(self.measured_ns, 1.0)
        if self.target.name != NOMINAL or 1 / FAR_OFF <= factor <= FAR_OFF:
            return ""
        off = f"{1 / factor:.1f} times too low" if factor < 1 else f"{factor:.1f} times too high"
        return f'the estimates are {off}: target="calibrated" estimates by figures that were measured on this machine'

    def csv(self, path: str | os.PathLike[str], program: str = "") -> None:
        """Writes a CSV file in the columns of seed 000 §13's log (`eqsat.explanation.measurement.COLUMNS`), one row per
        launch. program: the name of the program, a column.

        Raises:
            EqsatError: InvalidOption if the file cannot be written.
        """
        write_output(check_path(path), csv_text({program: self}).encode(), STAGE)

    def trace(self, path: str | os.PathLike[str], program: str = "") -> None:
        """Writes a Chrome trace (JSON for chrome://tracing and Perfetto): one event per launch, one after another, each
        as long as its median time. program: a name to show.

        Raises:
            EqsatError: InvalidOption if the file cannot be written.
        """
        write_output(check_path(path), trace_text({program: self}).encode(), STAGE)


def csv_text(profiles: Mapping[str, Profile]) -> str:
    """The measurements of programs by name as CSV, in the columns of seed 000 §13's log."""
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for program, profile in profiles.items():
        for kernel, plan in zip(profile, profile.plans, strict=True):
            measurement = Measurement(
                target=profile.target.name,
                program=program,
                kernel=kernel.name,
                work=kernel.work,
                plan=plan,
                estimated_ns=kernel.estimated_ns,
                measured_ns=kernel.measured_ns or 0.0,
                runs=kernel.runs,
            )
            writer.writerow(measurement.row(__version__))
    return text.getvalue()


def trace_text(profiles: Mapping[str, Profile]) -> str:
    """The launches of programs by name as a Chrome trace, a process of the trace for each program."""
    events: list[dict[str, Any]] = []
    for number, (program, profile) in enumerate(profiles.items()):
        name = " ".join(filter(None, (program, f"on {profile.target.name}")))
        events.append({"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": name}})
        events += _events(profile, number)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=1)


def _events(profile: Profile, process: int) -> list[dict[str, Any]]:
    """An event per launch; times of the trace are in µs."""
    events, start = [], 0.0
    for kernel in profile:
        ns = kernel.measured_ns or 0.0
        details = {
            "flops": kernel.flops,
            "bytes": kernel.bytes,
            "estimated_ns": kernel.estimated_ns,
            "GFLOP/s": kernel.gflop_per_s,
            "GB/s": kernel.gb_per_s,
            "computes": tag_text(kernel.tags),
            "reads": list(kernel.reads),
            "writes": list(kernel.writes),
            "runs": kernel.runs,
        }
        event = {"name": kernel.name, "cat": kernel.bound, "ph": "X", "pid": process, "tid": 0}
        events.append({**event, "ts": start / 1e3, "dur": ns / 1e3, "args": details})
        start += ns
    return events


def profile_table(kernels: Sequence[KernelReport]) -> Table:
    """One row per launch: its share of the measured time, its times and its rates; then the sums. Long names fold."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("kernel", overflow="fold")
    repeated = any(kernel.runs > 1 for kernel in kernels)
    for name in (*(["runs"] if repeated else []), "share", "measured", "estimated", "est/meas", "GFLOP/s", "GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound", no_wrap=True)
    total = sum(kernel.measured_ns or 0.0 for kernel in kernels)
    for kernel in kernels:
        label = Text(kernel.name)
        if kernel.tags:
            label.append(f"\n{tag_text(kernel.tags)}", "dim")
        runs = [f"{kernel.runs:,}"] if repeated else []
        ns = kernel.measured_ns or 0.0
        rates = (f"{kernel.gflop_per_s:,.1f}", f"{kernel.gb_per_s:,.1f}")
        table.add_row(label, *runs, *_times(kernel.estimated_ns, ns, total), *rates, kernel.bound)
    sums = _times(sum(kernel.estimated_ns for kernel in kernels), total, total)
    table.add_row(Text("total"), *([""] if repeated else []), *sums, style="bold")
    return table


def _times(estimated_ns: float, measured_ns: float, total_ns: float) -> tuple[str, str, str, str]:
    """The share of the total, both times, and their quotient."""
    share = f"{100 * measured_ns / max(total_ns, 1.0):.1f} %"
    return share, micros(measured_ns), micros(estimated_ns), f"{estimated_ns / max(measured_ns, 1.0):.2f}"
