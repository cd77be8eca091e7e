"""Compares predicted with measured times, on covers of every program and a Target calibrated without them.

    python -m bench.fidelity [--only TEXT] [--covers 30] [--rounds 20] [--fresh] [--out FOLDER]

Per program: Spearman's rank correlation of predicted and measured time, over covers priced up to 3 times the chosen
one, and the chosen cover's time relative to the best measured. The time of a launch is the least of many short
interleaved samples, so that other work disturbs little. On a busy machine bind the bench to one core with
`taskset -c 1`; Target and programs then have a single thread. Writes to `bench/results/fidelity/` or `--out`: the
covers of every program and a summary as CSV, the summary as a table, all covers as a plot; and every launch to the log
beside that folder.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from bench import log
from bench.arguments import containing, count
from bench.covers import Running, Subject, agree, measure
from bench.facts import RESULTS, commit, load, warn_of_load
from bench.programs import Source, programs
from eqsat.find_target import calibrated_target
from ir.diagnostics import EqsatError
from ir.target import Target

WITHIN = 3.0
"""Covers cost at most so many times the chosen one."""
WANTED_RANK, WANTED_LOSS = 0.85, 1.10
"""Goals: the least mean rank correlation, and the most time of a chosen cover relative to the best."""
FOLDER = RESULTS / "fidelity"


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


def fidelity(name: str, source: Source, target: Target, covers: int, rounds: int) -> tuple[Fidelity, list[Running]]:
    """Measures one program; the chosen cover's run comes first.

    Raises:
        DisagreementError: if two covers compute different results.
    """
    from scipy.stats import spearmanr

    _progress(f"{name}: saturate and extract")
    subject = Subject(source(), target)
    sampled = subject.sample_covers(covers, WITHIN)
    running = []
    for number, cover in enumerate(sampled, 1):
        _progress(f"{name}: compile cover {number} of {len(sampled)}")
        running.append(subject.run(cover, target.units))
    _progress(f"{name}: compare {len(running)} results")
    if not agree(running):
        raise DisagreementError(f"{name}: two covers compute different results: not timed")
    _progress(f"{name}: measure {len(running)} covers in {rounds} rounds")
    measure(running, rounds)
    predicted, measured = [run.predicted_ns for run in running], [run.measured_ns for run in running]
    rank = float(spearmanr(predicted, measured).statistic) if len(running) > 2 else float("nan")
    ratio = statistics.median(m / p for m, p in zip(measured, predicted, strict=True))
    best = min(measured)
    result = Fidelity(name, len(running), rank, measured[0] / best, ratio, measured[0] / 1e3, best / 1e3)
    return result, running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--covers", type=count, default=30)
    parser.add_argument("--rounds", type=count, default=20)
    parser.add_argument("--fresh", action="store_true", help="calibrate anew")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder of the results")
    options = parser.parse_args()
    sources = programs()
    chosen = containing(parser, options.only, sources)
    warn_of_load()
    _progress("calibrate")
    target = calibrated_target(again=options.fresh)
    results: list[Fidelity] = []
    points: dict[str, list[tuple[float, float]]] = {}
    failed: list[str] = []
    _progress("")
    print(_HEAD)
    for name in chosen:
        try:
            result, running = fidelity(name, sources[name], target, options.covers, options.rounds)
        except (EqsatError, DisagreementError) as error:
            failed.append(name)
            print(f"{name:<20} failed: {error}", flush=True)
            continue
        results.append(result)
        points[name] = [(run.predicted_ns, run.measured_ns) for run in running]
        _progress("")
        print(_line(result), flush=True)
        _write_covers(name, running, target, options.out)
    verdict = _verdict(results)
    print(verdict)
    if results and not options.only:
        _summarise(results, target, verdict, points, options.out)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


class DisagreementError(Exception):
    """Two covers of one program compute different results."""


_HEAD = f"{'program':<20}{'covers':>7}{'rank':>7}{'chosen/best':>13}{'measured/predicted':>20}{'chosen µs':>11}"


def _line(result: Fidelity) -> str:
    figures = f"{result.rank:>7.2f}{result.loss:>13.2f}{result.ratio:>20.2f}{result.chosen_us:>11.1f}"
    return f"{result.program:<20}{result.covers:>7}{figures}"


def _verdict(results: list[Fidelity]) -> str:
    if not results:
        return "no program was measured"
    rank = statistics.mean(result.rank for result in results)
    losses = [result.loss for result in results]
    verdict = "reached" if rank >= WANTED_RANK and max(losses) <= WANTED_LOSS else "NOT reached"
    means = f"mean rank {rank:.3f}, mean chosen/best {statistics.mean(losses):.3f}"
    return f"{means}: {WANTED_RANK} and {WANTED_LOSS} {verdict}"


def _progress(stage: str) -> None:
    """Shows the current stage on a line of stderr that the next stage overwrites; only on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{stage}", end="", file=sys.stderr, flush=True)


def _summarise(
    results: list[Fidelity],
    target: Target,
    verdict: str,
    points: Mapping[str, Sequence[tuple[float, float]]],
    folder: Path,
) -> None:
    """Writes all results as CSV, table and plot, with the facts of the measurement."""
    from bench.plots import covers

    about = f"commit {commit()}, load {load()}, {target.name}, {target.units} cores, {target.source}; {verdict}"
    with (folder / "summary.csv").open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {about}\n")
        rows = csv.writer(file)
        rows.writerow([field.name for field in fields(Fidelity)])
        rows.writerows(
            [f"{value:.4g}" if isinstance(value, float) else value for value in astuple(result)] for result in results
        )
    (folder / "summary.txt").write_text("\n".join([about, _HEAD, *map(_line, results), ""]), encoding="utf-8")
    covers(points, folder / "predicted_against_measured.png")
    print(f"written to {folder}")


def _write_covers(name: str, running: list[Running], target: Target, folder: Path) -> None:
    """Writes the covers as CSV, and their launches to the log."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name.replace(' ', '_')}.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("cover", "kernels", "predicted_us", "measured_us"))
        for number, run in enumerate(running):
            times = (run.predicted_ns, run.measured_ns)
            rows.writerow((number, len(run.prices), *(f"{ns / 1e3:.3f}" for ns in times)))
    log.append(target, name, (launch for run in running for launch in run.launches), folder.parent / log.NAME)


if __name__ == "__main__":
    main()
