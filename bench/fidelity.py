"""How well prices tell time: covers of each program, priced on a Target calibrated without them, compiled and measured.

    python -m bench.fidelity [--only TEXT] [--covers 30] [--rounds 20] [--fresh] [--out FOLDER]

Per program: Spearman's rank correlation of predicted and measured time over covers priced within 3 times the chosen
one, and how far the chosen cover is from the best measured. Each launch counts with the least of many short interleaved
samples, so that other work on the machine disturbs little; on a busy machine bind the bench to one core with
`taskset -c 1`, which makes the Target and the programs ones of a single thread. Written to `bench/results/fidelity/`
or `--out`: the covers of each program and a summary as CSV, the summary as a table, all covers as a plot; each launch
in the log beside that folder.
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
WANTED_RANK, WANTED_LOSS = 0.85, 1.10
FOLDER = RESULTS / "fidelity"


@dataclass(frozen=True)
class Fidelity:
    """Of one program: `covers` of it were measured; `rank` is Spearman's; `loss` the chosen cover's time over that of
    the best; `ratio` the median of measured over predicted."""

    program: str
    covers: int
    rank: float
    loss: float
    ratio: float
    chosen_us: float
    best_us: float


def fidelity(name: str, source: Source, target: Target, covers: int, rounds: int) -> tuple[Fidelity, list[Running]]:
    """Measure one program; the chosen cover's run comes first.

    Raises:
        DisagreementError: where two covers compute different results.
    """
    from scipy.stats import spearmanr

    _progress(f"{name}: saturate and extract")
    subject = Subject(source(), target)
    varied = subject.varied(covers, WITHIN)
    running = []
    for number, cover in enumerate(varied, 1):
        _progress(f"{name}: compile cover {number} of {len(varied)}")
        running.append(subject.run(cover, target.units))
    _progress(f"{name}: compare {len(running)} results")
    if not agree(running):
        raise DisagreementError(f"{name}: two covers compute different results: not timed")
    _progress(f"{name}: measure {len(running)} covers in {rounds} rounds")
    measure(running, rounds)
    predicted, measured = [each.predicted_ns for each in running], [each.measured_ns for each in running]
    rank = float(spearmanr(predicted, measured).statistic) if len(running) > 2 else float("nan")
    ratio = statistics.median(m / p for m, p in zip(measured, predicted, strict=True))
    best = min(measured)
    found = Fidelity(name, len(running), rank, measured[0] / best, ratio, measured[0] / 1e3, best / 1e3)
    return found, running


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
    found: list[Fidelity] = []
    points: dict[str, list[tuple[float, float]]] = {}
    failed: list[str] = []
    _progress("")
    print(_HEAD)
    for name in chosen:
        try:
            each, running = fidelity(name, sources[name], target, options.covers, options.rounds)
        except (EqsatError, DisagreementError) as error:
            failed.append(name)
            print(f"{name:<20} failed: {error}", flush=True)
            continue
        found.append(each)
        points[name] = [(one.predicted_ns, one.measured_ns) for one in running]
        _progress("")
        print(_line(each), flush=True)
        _keep(name, running, target, options.out)
    told = _verdict(found)
    print(told)
    if found and not options.only:
        _summarise(found, target, told, points, options.out)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


class DisagreementError(Exception):
    """Two covers of one program compute different results."""


_HEAD = f"{'program':<20}{'covers':>7}{'rank':>7}{'chosen/best':>13}{'measured/predicted':>20}{'chosen µs':>11}"


def _line(each: Fidelity) -> str:
    figures = f"{each.rank:>7.2f}{each.loss:>13.2f}{each.ratio:>20.2f}{each.chosen_us:>11.1f}"
    return f"{each.program:<20}{each.covers:>7}{figures}"


def _verdict(found: list[Fidelity]) -> str:
    if not found:
        return "no program was measured"
    rank, loss = statistics.mean(each.rank for each in found), statistics.mean(each.loss for each in found)
    verdict = "reached" if rank >= WANTED_RANK and all(each.loss <= WANTED_LOSS for each in found) else "NOT reached"
    return f"mean rank {rank:.3f}, mean chosen/best {loss:.3f}: {WANTED_RANK} and {WANTED_LOSS} {verdict}"


def _progress(stage: str) -> None:
    """What is under way, on a line of stderr that the next one overwrites; nothing where that is no terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{stage}", end="", file=sys.stderr, flush=True)


def _summarise(
    found: list[Fidelity],
    target: Target,
    told: str,
    points: Mapping[str, Sequence[tuple[float, float]]],
    folder: Path,
) -> None:
    """All programs as CSV, table and plot, after what they were measured on."""
    from bench.plots import covers

    about = f"commit {commit()}, load {load()}, {target.name}, {target.units} cores, {target.source}; {told}"
    with (folder / "summary.csv").open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {about}\n")
        rows = csv.writer(file)
        rows.writerow([each.name for each in fields(Fidelity)])
        rows.writerows(
            [f"{value:.4g}" if isinstance(value, float) else value for value in astuple(each)] for each in found
        )
    (folder / "summary.txt").write_text("\n".join([about, _HEAD, *map(_line, found), ""]), encoding="utf-8")
    covers(points, folder / "predicted_against_measured.png")
    print(f"written to {folder}")


def _keep(name: str, running: list[Running], target: Target, folder: Path) -> None:
    """The covers as CSV, and their launches in the log."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name.replace(' ', '_')}.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("cover", "kernels", "predicted_us", "measured_us"))
        for number, each in enumerate(running):
            times = (each.predicted_ns, each.measured_ns)
            rows.writerow((number, len(each.prices), *(f"{ns / 1e3:.3f}" for ns in times)))
    log.append(target, name, (launch for each in running for launch in each.launches), folder.parent / log.NAME)


if __name__ == "__main__":
    main()
