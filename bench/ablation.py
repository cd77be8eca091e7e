"""What each idea is worth: every family of rules, every term of §11 and every extractor is left out in turn.

    python -m bench.ablation [--only TEXT] [--kinds family,term,extractor] [--rounds 8] [--models squeezenet]
        [--target NAME] [--out FOLDER]

Of each program stands first how near the default extractor comes to the optimum: the least predicted time where
kernels of the candidate set may be taken in part (a linear program), what a binary program has proven, and the gap to
the former.

For each program and each knock-out: predicted time (by all terms of §11, whatever chose the cover), measured time
(the least of many short samples, of all covers of a program in turn), kernels, bytes, and optimize time (one run).
Knock-outs of terms and extractors share one e-graph, those that lead to one program its measurement. On a busy machine
bind it to one core, `taskset -c 1`.

Writes `ablation.csv`, `optimality.csv`, a table `ablation.txt` and two plots (the `bench` extra) to
`bench/results/ablation/` or `--out`, and every kernel measured to the log beside that folder, `measurements.csv`.
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
    """How near the default extractor comes, among covers by kernels of one output, all buffers row-major. Predicted ns:
    of its cover, `linear_ns` and `proven_ns` as `CoverBound` has them; `gap` of the first to the second, relative;
    `seconds` to price every candidate and to solve both programs."""

    program: str
    candidates: int
    chosen_ns: float
    linear_ns: float
    proven_ns: float
    gap: float
    seconds: float


@dataclass(frozen=True)
class Made:
    """The program of one knock-out."""

    knockout: Knockout
    running: Running
    predicted_ns: float
    optimize_s: float


def ablate(
    program: str, source: Source, target: Target, tried: Sequence[Knockout], rounds: int, measurements: Path
) -> list[Row]:
    """The rows of one program; the first has everything on. Each kernel measured is a row of the log `measurements`."""
    subjects: dict[tuple[str, ...] | None, Subject] = {}
    built: dict[Any, Running] = {}
    tries = (_made(source, target, knockout, subjects, built) for knockout in tried)
    made = [each for each in tries if each is not None]
    measure(list(built.values()), rounds)
    for running in built.values():
        log.append(target, program, running.launches, measurements)
    base = made[0].running.measured_ns
    return [_row(program, each, base) for each in made]


def optimality(program: str, source: Source, target: Target) -> Optimality:
    """The default extractor's cover of a program against the bounds on all covers."""
    subject = Subject(source(), target)
    start = time.perf_counter()
    cover, least = subject.optimality()
    seconds = time.perf_counter() - start
    return Optimality(
        program, cover.considered, cover.time_ns, least.linear_ns, least.proven_ns, least.gap(cover), seconds
    )


def _made(
    source: Source,
    target: Target,
    knockout: Knockout,
    subjects: dict[tuple[str, ...] | None, Subject],
    built: dict[Any, Running],
) -> Made | None:
    """The program as code, once for each distinct one; None where there is none without what is left out, or none that
    fits in memory. `subjects`: the e-graphs, by rules; only that of all rules is used again."""
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
    return Made(knockout, built[key], whole_price(built[key].prices, target), seconds)


def _identity(cover: Cover) -> tuple[object, ...]:
    """Equal for covers of one program that are the same code."""

    def told(kernel: CoverKernel) -> tuple[object, ...]:
        buffers = (cover.names[each] for each in (*kernel.writes, *kernel.reads))
        return kernel.region, str(kernel.price and kernel.price.plan), *buffers

    return tuple(told(kernel) for kernel in cover.kernels if kernel.price)


def _row(program: str, made: Made, base_ns: float) -> Row:
    running = made.running
    return Row(
        program=program,
        kind=made.knockout.kind,
        name=made.knockout.name,
        kernels=len(running.prices),
        bytes=sum(price.work.bytes for price in running.prices),
        predicted_ns=made.predicted_ns,
        measured_ns=running.measured_ns,
        loss=running.measured_ns / base_ns,
        optimize_s=made.optimize_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what is left out, one at a time")
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
            found = ablate(name, source, target, tried, options.rounds, options.out.parent / log.NAME)
        except EqsatError as error:
            failed.append(name)
            print(f"{name:<20} failed: {error}", flush=True)
            continue
        print(_summary(found), flush=True)
        rows += found
    if rows:
        _write(rows, bounds, target, options.out)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _summary(rows: Sequence[Row]) -> str:
    """What of one program matters most."""
    base, *others = rows
    worst = sorted(others, key=lambda row: -row.loss)[:3]
    told = ", ".join(f"without {row.kind} {row.name} ×{row.loss:.2f}" for row in worst if row.loss > 1.05)
    times = f"{base.predicted_ns / 1e3:.1f} µs predicted, {base.measured_ns / 1e3:.1f} measured"
    seconds = f"optimized in {base.optimize_s:.2f} s"
    return f"{base.program:<20}{base.kernels:>4} kernels, {times}, {seconds}; {told or 'no loss'}"


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
        out.writerow([each.name for each in fields(rows[0])] if rows else [])
        out.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in astuple(row)] for row in rows)


def _table(rows: Sequence[Row], target: Target) -> Iterable[str]:
    programs_ = len({row.program for row in rows})
    machine = f"{target.name} ({target.units} cores, {target.source})"
    yield f"{programs_} programs on {machine}, commit {commit()}, load {load()}"
    yield "ratios to everything on, geometric means"
    yield f"{'without':<28}{'predicted':>10}{'measured':>10}{'kernels':>9}{'bytes':>8}{'optimize':>10}   worst"
    for each in worth(rows):
        times = f"{each.predicted:>10.2f}{each.measured:>10.2f}"
        figures = f"{times}{each.kernels:>9.2f}{each.bytes:>8.2f}{each.optimize:>10.2f}"
        yield f"{each.kind + ' ' + each.name:<28}{figures}   ×{each.worst:.2f} {each.program}"


def optimality_table(bounds: Iterable[Optimality]) -> Iterable[str]:
    """A line per program."""
    yield "predicted µs of the default's cover, against the bounds on covers by the same candidates"
    yield f"{'program':<20}{'candidates':>11}{'chosen':>12}{'linear':>12}{'proven':>12}{'gap':>9}{'seconds':>9}"
    for each in bounds:
        times = "".join(f"{ns / 1e3:>12.2f}" for ns in (each.chosen_ns, each.linear_ns, each.proven_ns))
        yield f"{each.program:<20}{each.candidates:>11}{times}{each.gap:>9.2%}{each.seconds:>9.2f}"


if __name__ == "__main__":
    main()
