"""How true predicted times are: covers of a program, measured beside their prices."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from eqsat.executors import check_executor, run_jobs
from eqsat.explanation.measurement import Measurement
from eqsat.find_target import find_target
from eqsat.studies import log
from eqsat.studies.ablation import write_rows
from eqsat.studies.covers import STAGE, Subject, agree, measure
from eqsat.version import __version__
from ir.diagnostics import EqsatError, Kind, fail
from ir.target import Target

WITHIN = 3.0
"""Covers cost at most so many times the chosen one."""
HEAD = f"{'program':<20}{'covers':>7}{'rank':>7}{'chosen/best':>13}{'measured/predicted':>20}{'chosen µs':>11}"


@dataclass(frozen=True)
class Fidelity:
    """The result of one program over `covers` covers. `rank`: Spearman's correlation; `loss`: the chosen cover's time
    over that of the best; `ratio`: the median of measured over predicted time."""

    program: str
    covers: int
    rank: float
    loss: float
    ratio: float
    chosen_us: float
    best_us: float

    def __str__(self) -> str:
        """A line below `HEAD`."""
        figures = f"{self.rank:>7.2f}{self.loss:>13.2f}{self.ratio:>20.2f}{self.chosen_us:>11.1f}"
        return f"{self.program:<20}{self.covers:>7}{figures}"


class CoverTimes(NamedTuple):
    """A measured cover; times in ns."""

    kernels: int
    predicted_ns: float
    measured_ns: float


@dataclass(frozen=True)
class ProgramFidelity:
    """The covers of one program, the chosen one first. measurements: of every kernel."""

    result: Fidelity
    covers: tuple[CoverTimes, ...]
    measurements: tuple[Measurement, ...]


@dataclass
class FidelityStudy:
    """The fidelity of several programs. `print` shows a table. failures: the programs that could not be measured."""

    programs: dict[str, ProgramFidelity] = field(default_factory=dict)
    failures: dict[str, EqsatError] = field(default_factory=dict)

    @property
    def results(self) -> list[Fidelity]:
        return [program.result for program in self.programs.values()]

    def __str__(self) -> str:
        return "\n".join([HEAD, *map(str, self.results)])

    def write(self, folder: Path, commit: str = __version__) -> None:
        """Writes the covers of every program and `summary.csv` into a folder, and every measured kernel to the log
        beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, program in self.programs.items():
            with (folder / f"{_file_name(name)}.csv").open("w", newline="", encoding="utf-8") as file:
                rows = csv.writer(file)
                rows.writerow(("cover", "kernels", "predicted_us", "measured_us"))
                for number, (kernels, *times) in enumerate(program.covers):
                    rows.writerow((number, kernels, *(f"{ns / 1e3:.3f}" for ns in times)))
            log.append(program.measurements, folder.parent / log.NAME, commit)
        write_rows(folder / "summary.csv", self.results)


def measure_fidelity(
    programs: Mapping[str, Any],
    *,
    dims: Mapping[str, int] | None = None,
    target: str | Target = "calibrated",
    covers: int = 30,
    rounds: int = 20,
    executor: Executor | None = None,
    report: Callable[[str, ProgramFidelity | EqsatError], None] | None = None,
) -> FidelityStudy:
    """Measure covers of programs, priced up to 3 times the chosen one, beside their prices.

    Args:
        programs, dims, target, rounds, executor, report: as `eqsat.studies.ablation.ablate` takes them.
        covers: of each program, beside the chosen one.

    Raises:
        EqsatError: InvalidOption for an object that is no executor, UnknownTarget.
    """
    check_executor(executor)
    jobs = {name: (name, source, dict(dims or {}), target, covers, rounds) for name, source in programs.items()}
    study = FidelityStudy()
    for name, result in run_jobs(program_fidelity, jobs, executor):
        if isinstance(result, EqsatError):
            study.failures[name] = result
        else:
            study.programs[name] = result
        if report is not None:
            report(name, result)
    return study


def program_fidelity(
    name: str, source: Any, dims: Mapping[str, int], target: str | Target, covers: int, rounds: int
) -> ProgramFidelity:
    """Measures one program. Raises EqsatError, WrongResult, where two covers compute different results."""
    machine = find_target(target)
    subject = Subject(source, machine, dims=dims)
    running = [subject.run(cover, machine.units) for cover in subject.sample_covers(covers, WITHIN)]
    if not agree(running):
        fail(Kind.WRONG_RESULT, STAGE, "two covers compute different results, so that none is timed", at=name)
    measure(running, rounds)
    times = tuple(CoverTimes(len(run.prices), run.predicted_ns, run.measured_ns) for run in running)
    predicted, measured = (
        [timed_run.predicted_ns for timed_run in times],
        [timed_run.measured_ns for timed_run in times],
    )
    ratio = statistics.median(m / p for m, p in zip(measured, predicted, strict=True))
    best = min(measured)
    rank = rank_correlation(predicted, measured)
    result = Fidelity(name, len(running), rank, measured[0] / best, ratio, measured[0] / 1e3, best / 1e3)
    return ProgramFidelity(
        result, times, tuple(measurement for run in running for measurement in run.measurements(name))
    )


def rank_correlation(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Spearman's correlation of the ranks; NaN of fewer than three times."""
    from scipy.stats import spearmanr

    return float(spearmanr(predicted, measured).statistic) if len(predicted) > 2 else float("nan")


def _file_name(program: str) -> str:
    """A program's name as that of a file."""
    return "".join(letter if letter.isalnum() or letter in "._-+" else "_" for letter in program)
