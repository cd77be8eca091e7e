"""Measures what every idea is worth: one family of rules, term of §11 or extractor is left out at a time.

    python -m bench.ablation [--only TEXT] [--kinds family,term,extractor] [--rounds 8] [--models squeezenet]
        [--target NAME] [--out FOLDER]

First comes the gap between the default extractor's cover of a program and the optimum: a lower bound (the linear
program, in which parts of kernels may be taken), and the bound that a binary program proves.

Then, per program and knock-out: predicted time (by all terms of §11, whichever chose the cover), measured time (the
least of many short samples, covers in turn), kernels, bytes, and optimize time (one run). Knock-outs of terms and
extractors share one e-graph; knock-outs that lead to the same program share its measurement. On a busy machine bind
the bench to one core: `taskset -c 1`.

Writes `ablation.csv`, `optimality.csv`, a table `ablation.txt` and two plots (the `bench` extra) to
`bench/results/ablation/` or `--out`, and every measured kernel to the log `measurements.csv` beside that folder.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from bench import log
from bench.arguments import LIGHT, among, containing, count
from bench.covers import Running, Subject, measure, whole_price
from bench.facts import RESULTS, commit, load, warn_of_load
from bench.knockout_rows import Row, worth
from bench.knockouts import EVERYTHING, KINDS, Knockout, knockouts
from bench.plots import losses, predictions
from bench.programs import Source, programs
from eqsat.extraction.cover import Cover, CoverKernel
from eqsat.find_target import find_target
from ir.diagnostics import EqsatError
from ir.target import Target

FOLDER = RESULTS / "ablation"


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
class Build:
    """The program of one knock-out."""

    knockout: Knockout
    running: Running
    predicted_ns: float
    optimize_s: float


def ablate(
    program: str, source: Source, target: Target, tried: Sequence[Knockout], rounds: int, measurements: Path
) -> list[Row]:
    """The rows of a program; the first has everything on. Every measured kernel is a row of the log `measurements`."""
    subjects: dict[tuple[str, ...] | None, Subject] = {}
    built: dict[Any, Running] = {}
    builds = (_build(source, target, knockout, subjects, built) for knockout in tried)
    done = [build for build in builds if build is not None]
    measure(list(built.values()), rounds)
    for running in built.values():
        log.append(target, program, running.launches, measurements)
    base = done[0].running.measured_ns
    return [_row(program, build, base) for build in done]


def optimality(program: str, source: Source, target: Target) -> Optimality:
    """The default extractor's cover of a program, and the bounds on all covers."""
    subject = Subject(source(), target)
    start = time.perf_counter()
    cover, least = subject.optimality()
    seconds = time.perf_counter() - start
    return Optimality(
        program, cover.considered, cover.time_ns, least.linear_ns, least.proven_ns, least.gap(cover), seconds
    )


def _build(
    source: Source,
    target: Target,
    knockout: Knockout,
    subjects: dict[tuple[str, ...] | None, Subject],
    built: dict[Any, Running],
) -> Build | None:
    """The compiled program of a knock-out; equal programs are compiled once. None if the program needs the missing part
    or does not fit in memory. `subjects`: e-graphs by rules; only the e-graph of all rules is kept."""
    try:
        subject = subjects.get(knockout.rules) or Subject(source(), target, rules=knockout.rules)
        if knockout.rules is None:
            subjects[None] = subject
        subject = subject.choosing(knockout.terms, knockout.extractor)
        start = time.perf_counter()
        cover = subject.best()
        seconds = subject.saturate_seconds + time.perf_counter() - start
        key = _identity(cover)
        if key not in built:
            built[key] = subject.run(cover, target.units)
    except EqsatError as error:
        if knockout == EVERYTHING:
            raise
        print(f"  without {knockout}: {error.diagnostics[0].message}", file=sys.stderr)
        return None
    return Build(knockout, built[key], whole_price(built[key].prices, target), seconds)


def _identity(cover: Cover) -> tuple[object, ...]:
    """Equal for covers of one program that become the same code."""

    def identify(kernel: CoverKernel) -> tuple[object, ...]:
        buffers = (cover.names[ref] for ref in (*kernel.writes, *kernel.reads))
        return kernel.region, str(kernel.price and kernel.price.plan), *buffers

    return tuple(identify(kernel) for kernel in cover.kernels if kernel.price)


def _row(program: str, build: Build, base_ns: float) -> Row:
    running = build.running
    return Row(
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of knock-outs")
    parser.add_argument("--rounds", type=count, default=8)
    parser.add_argument("--models", default="squeezenet", help="light models, after the programs; may be none")
    parser.add_argument("--target", default="calibrated", help='"cpu" for the nominal figures')
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder of the results")
    options = parser.parse_args()
    kinds = among(parser, "--kinds", options.kinds, KINDS)
    models = among(parser, "--models", options.models, LIGHT)
    sources = programs(models)
    chosen = containing(parser, options.only, sources)
    warn_of_load()
    target = find_target(options.target)
    rows: list[Row] = []
    bounds: list[Optimality] = []
    failed: list[str] = []
    for name in chosen:
        source = sources[name]
        tried = (EVERYTHING, *knockouts(kinds, slow=name not in models))
        try:
            bounds.append(optimality(name, source, target))
            measured = ablate(name, source, target, tried, options.rounds, options.out.parent / log.NAME)
        except EqsatError as error:
            failed.append(name)
            print(f"{name:<20} failed: {error}", flush=True)
            continue
        print(_summary(measured), flush=True)
        rows += measured
    if rows:
        _write(rows, bounds, target, options.out)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _summary(rows: Sequence[Row]) -> str:
    """One line about a program, with its worst losses."""
    base, *others = rows
    worst = sorted(others, key=lambda row: -row.loss)[:3]
    losses_text = ", ".join(f"without {row.kind} {row.name} ×{row.loss:.2f}" for row in worst if row.loss > 1.05)
    times = f"{base.predicted_ns / 1e3:.1f} µs predicted, {base.measured_ns / 1e3:.1f} measured"
    seconds = f"optimized in {base.optimize_s:.2f} s"
    return f"{base.program:<20}{base.kernels:>4} kernels, {times}, {seconds}; {losses_text or 'no loss'}"


def _write(rows: Sequence[Row], bounds: Sequence[Optimality], target: Target, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(folder / "ablation.csv", rows)
    _write_csv(folder / "optimality.csv", bounds)
    table = "\n".join([*_table(rows, target), "", *optimality_table(bounds)])
    (folder / "ablation.txt").write_text(table + "\n", encoding="utf-8")
    print(table)
    predictions(rows, folder / "predicted_against_measured.png")
    losses(worth(rows), folder / "loss_per_knockout.png")
    print(f"written to {folder}")


def _write_csv(path: Path, rows: Sequence[Row] | Sequence[Optimality]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow([field.name for field in fields(rows[0])] if rows else [])
        out.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in astuple(row)] for row in rows)


def _table(rows: Sequence[Row], target: Target) -> Iterable[str]:
    programs_ = len({row.program for row in rows})
    machine = f"{target.name} ({target.units} cores, {target.source})"
    yield f"{programs_} programs on {machine}, commit {commit()}, load {load()}"
    yield "ratios to everything on, geometric means"
    yield f"{'without':<28}{'predicted':>10}{'measured':>10}{'kernels':>9}{'bytes':>8}{'optimize':>10}   worst"
    for row in worth(rows):
        times = f"{row.predicted:>10.2f}{row.measured:>10.2f}"
        figures = f"{times}{row.kernels:>9.2f}{row.bytes:>8.2f}{row.optimize:>10.2f}"
        yield f"{row.kind + ' ' + row.name:<28}{figures}   ×{row.worst:.2f} {row.program}"


def optimality_table(bounds: Iterable[Optimality]) -> Iterable[str]:
    """A line per program."""
    yield "predicted µs of the default's cover, against the bounds on covers by the same candidates"
    yield f"{'program':<20}{'candidates':>11}{'chosen':>12}{'linear':>12}{'proven':>12}{'gap':>9}{'seconds':>9}"
    for row in bounds:
        times = "".join(f"{ns / 1e3:>12.2f}" for ns in (row.chosen_ns, row.linear_ns, row.proven_ns))
        yield f"{row.program:<20}{row.candidates:>11}{times}{row.gap:>9.2%}{row.seconds:>9.2f}"


if __name__ == "__main__":
    main()
