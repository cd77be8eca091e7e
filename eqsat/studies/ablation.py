"""The worth of every idea: one family of rules, term of the cost model or extractor is left out at a time."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from eqsat.executors import check_executor, run_jobs
from eqsat.explanation.measurement import Measurement
from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.find_target import find_target
from eqsat.studies import log
from eqsat.studies.covers import RunningCover, Subject, measure, whole_price
from eqsat.studies.knockout_rows import AblationRow, worth
from eqsat.studies.knockouts import EVERYTHING, KINDS, Knockout, knockouts
from eqsat.version import __version__
from ir.diagnostics import EqsatError
from ir.grammar import with_count
from ir.target import Target

LARGEST_UOPS = 300
"""Extractors that price every candidate are left out for larger programs: these have too many."""


@dataclass(frozen=True)
class Optimality:
    """The gap of the default extractor's cover, among covers by kernels of one output with all buffers row-major.
    `chosen_ns`: its predicted time; `linear_ns` and `proven_ns`: as in `CoverBound`; `gap`: from `chosen_ns` to
    `proven_ns`, relative; `seconds`: to price every candidate and to solve both programs."""

    program: str
    candidates: int
    chosen_ns: float
    linear_ns: float
    proven_ns: float
    gap: float
    seconds: float


@dataclass(frozen=True)
class ProgramAblation:
    """The ablation of one program. rows: the first has everything on. passed_over: knock-outs without a program, and
    why. measurements: of every kernel."""

    rows: tuple[AblationRow, ...]
    optimality: Optimality
    passed_over: Mapping[str, str]
    measurements: tuple[Measurement, ...]


@dataclass
class Ablation:
    """The ablation of several programs. `print` shows a table. failures: the programs that could not be measured."""

    programs: dict[str, ProgramAblation] = field(default_factory=dict)
    failures: dict[str, EqsatError] = field(default_factory=dict)

    @property
    def rows(self) -> list[AblationRow]:
        return [row for program in self.programs.values() for row in program.rows]

    def __str__(self) -> str:
        """The worth of every idea, and the gap of every cover."""
        bounds = [program.optimality for program in self.programs.values()]
        return "\n".join([*worth_table(self.rows), "", *optimality_table(bounds)])

    def write(self, folder: Path, commit: str = __version__) -> None:
        """Writes `ablation.csv`, `optimality.csv` and `ablation.txt` into a folder, and every measured kernel to the
        log beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / "ablation.csv", self.rows)
        write_rows(folder / "optimality.csv", [program.optimality for program in self.programs.values()])
        (folder / "ablation.txt").write_text(f"{self}\n", encoding="utf-8")
        for program in self.programs.values():
            log.append(program.measurements, folder.parent / log.NAME, commit)


def ablate(
    programs: Mapping[str, Any],
    *,
    dims: Mapping[str, int] | None = None,
    target: str | Target = "calibrated",
    kinds: Sequence[str] = KINDS,
    rounds: int = 8,
    executor: Executor | None = None,
    report: Callable[[str, ProgramAblation | EqsatError], None] | None = None,
) -> Ablation:
    """Optimize programs once with everything on, and once without each idea, and measure what comes out.

    Covers of one program are measured in turn, the least of many short samples each, so that other work on the machine
    disturbs all alike. Outputs are not compared: `eqsat.studies.fidelity` does.

    Args:
        programs: by name, each as `optimize_and_compile` takes it, or a function that makes it.
        dims: sizes of symbols.
        target: a CPU. "calibrated" is measured on each machine that measures a program.
        kinds: of ideas: "family", "term", "extractor".
        rounds: samples of each cover.
        executor: runs a program per job, on workers that have eqsat; None is this process. Workers of one machine
            disturb each other unless each has cores of its own.
        report: called with each program as it ends.

    Raises:
        EqsatError: InvalidOption for an object that is no executor, UnknownTarget.
    """
    check_executor(executor)
    jobs = {name: (name, source, dict(dims or {}), target, tuple(kinds), rounds) for name, source in programs.items()}
    study = Ablation()
    for name, result in run_jobs(ablate_program, jobs, executor):
        if isinstance(result, EqsatError):
            study.failures[name] = result
        else:
            study.programs[name] = result
        if report is not None:
            report(name, result)
    return study


def ablate_program(
    name: str,
    source: Any,
    dims: Mapping[str, int],
    target: str | Target,
    kinds: tuple[str, ...] = KINDS,
    rounds: int = 8,
    tried: Sequence[Knockout] | None = None,
) -> ProgramAblation:
    """The ablation of one program. tried: the knock-outs, `EVERYTHING` first; None: all of the kinds."""
    machine = find_target(target)
    subject = Subject(source, machine, dims=dims)
    if tried is None:
        tried = (EVERYTHING, *knockouts(kinds, slow=len(subject.bound.graph.nodes) <= LARGEST_UOPS))
    builds = _Builds(source, dims, machine, subject)
    done = [build for build in map(builds.build, tried) if build is not None]
    running = list(builds.running.values())
    measure(running, rounds)
    base = done[0].running.measured_ns
    rows = tuple(_row(name, build, base) for build in done)
    measurements = tuple(measurement for run in running for measurement in run.measurements(name))
    return ProgramAblation(rows, _optimality(name, subject), builds.passed_over, measurements)


@dataclass(frozen=True)
class _Build:
    """The program of one knock-out."""

    knockout: Knockout
    running: RunningCover
    predicted_ns: float
    optimize_s: float


class _Builds:
    """The compiled programs of knock-outs; equal programs are compiled once. Knock-outs of terms and extractors share
    the e-graph of all rules. passed_over: knock-outs whose program needs the missing part, or does not fit in memory,
    and why."""

    def __init__(self, source: Any, dims: Mapping[str, int], target: Target, everything: Subject) -> None:
        self._source, self._dims, self._target, self._everything = source, dims, target, everything
        self.running: dict[Any, RunningCover] = {}
        self.passed_over: dict[str, str] = {}

    def build(self, knockout: Knockout) -> _Build | None:
        try:
            subject = self._everything
            if knockout.rules is not None:
                subject = Subject(self._source, self._target, rules=knockout.rules, dims=self._dims)
            subject = subject.choosing(knockout.terms, knockout.extractor)
            start = time.perf_counter()
            cover = subject.best()
            seconds = subject.saturate_seconds + time.perf_counter() - start
            key = _identity(cover)
            if key not in self.running:
                self.running[key] = subject.run(cover, self._target.units)
        except EqsatError as error:
            if knockout == EVERYTHING:
                raise
            self.passed_over[str(knockout)] = error.diagnostics[0].message
            return None
        running = self.running[key]
        return _Build(knockout, running, whole_price(running.prices, self._target), seconds)


def _identity(cover: Cover) -> tuple[object, ...]:
    """Equal for covers of one program that become the same code."""

    def identify(kernel: CoverKernel) -> tuple[object, ...]:
        buffers = (cover.names[ref] for ref in (*kernel.writes, *kernel.reads))
        return kernel.region, str(kernel.price and kernel.price.plan), *buffers

    return tuple(identify(kernel) for kernel in cover.kernels if kernel.price)


def _optimality(program: str, subject: Subject) -> Optimality:
    start = time.perf_counter()
    cover, least = subject.optimality()
    seconds = time.perf_counter() - start
    return Optimality(
        program, cover.considered, cover.time_ns, least.linear_ns, least.proven_ns, least.gap(cover), seconds
    )


def _row(program: str, build: _Build, base_ns: float) -> AblationRow:
    running = build.running
    return AblationRow(
        program=program,
        kind=build.knockout.kind,
        name=build.knockout.name,
        kernels=len(running.prices),
        bytes=sum(price.work.bytes for price in running.prices),
        predicted_ns=build.predicted_ns,
        measured_ns=running.measured_ns,
        loss=running.measured_ns / base_ns,
        optimize_s=build.optimize_s,
    )


def summary(rows: Sequence[AblationRow]) -> str:
    """One line about a program, with its worst losses."""
    base, *others = rows
    worst = sorted(others, key=lambda row: -row.loss)[:3]
    losses = ", ".join(f"without {row.kind} {row.name} ×{row.loss:.2f}" for row in worst if row.loss > 1.05)
    times = f"{base.predicted_ns / 1e3:.1f} µs predicted, {base.measured_ns / 1e3:.1f} measured"
    kernels = with_count(base.kernels, "kernel")
    return f"{base.program}: {kernels}, {times}, optimized in {base.optimize_s:.2f} s; {losses or 'no loss'}"


def worth_table(rows: Sequence[AblationRow]) -> Iterator[str]:
    """A line per idea."""
    programs = dict.fromkeys(row.program for row in rows)
    yield f"ratios to everything on, geometric means over {', '.join(programs)}"
    yield f"{'without':<22}{'predicted':>10}{'measured':>10}{'kernels':>9}{'bytes':>7}{'optimize':>10}  worst"
    for row in worth(rows):
        times = f"{row.predicted:>10.2f}{row.measured:>10.2f}"
        figures = f"{times}{row.kernels:>9.2f}{row.bytes:>7.2f}{row.optimize:>10.2f}"
        where = f" {row.program}" if len(programs) > 1 else ""
        yield f"{row.kind + ' ' + row.name:<22}{figures}  ×{row.worst:.2f}{where}"


def optimality_table(bounds: Iterable[Optimality]) -> Iterator[str]:
    """A line per program."""
    yield "predicted µs of the default's cover, and bounds on covers by the same candidates"
    yield f"{'program':<20}{'candidates':>10}{'chosen':>11}{'linear':>11}{'proven':>11}{'gap':>8}{'seconds':>8}"
    for row in bounds:
        times = "".join(f"{ns / 1e3:>11.2f}" for ns in (row.chosen_ns, row.linear_ns, row.proven_ns))
        yield f"{row.program:<20}{row.candidates:>10}{times}{row.gap:>8.2%}{row.seconds:>8.2f}"


def write_rows(path: Path, rows: Sequence[Any]) -> None:
    """Dataclasses of one kind as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow([column.name for column in fields(rows[0])] if rows else [])
        out.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in astuple(row)] for row in rows)
