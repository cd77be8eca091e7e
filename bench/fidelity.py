"""How well prices tell time: covers of each program, priced on a Target calibrated without them, compiled and measured.

    python -m bench.fidelity [--only TEXT] [--covers 30] [--rounds 12] [--fresh]

Per program: Spearman's rank correlation of predicted and measured time over covers priced within 3 times the chosen
one, and how far the chosen cover is from the best measured. Each launch counts with the least of many short interleaved
samples, so that other work on the machine disturbs little; on a busy machine bind the bench to one core with
`taskset -c 1`, which makes the Target and the programs ones of a single thread. Written to `bench/results/fidelity/`.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from dataclasses import astuple, dataclass, fields

from bench import log
from bench.covers import Running, Subject, agree, measure
from bench.facts import RESULTS, commit, load, warn_of_load
from bench.programs import Source, programs
from eqsat.pipeline import calibrated_target
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
    """Measure one program; the chosen cover's run comes first."""
    from scipy.stats import spearmanr

    subject = Subject(source(), target)
    running = [subject.run(cover, target.units) for cover in subject.varied(covers, WITHIN)]
    if not agree(running):
        raise SystemExit(f"{name}: two covers compute different results: not timed")
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
    parser.add_argument("--covers", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--fresh", action="store_true", help="calibrate anew")
    options = parser.parse_args()
    warn_of_load()
    target = calibrated_target(again=options.fresh)
    found = []
    print(f"{'program':<20}{'covers':>7}{'rank':>7}{'chosen/best':>13}{'measured/predicted':>20}{'chosen µs':>11}")
    for name, source in programs(models=False).items():
        if options.only not in name:
            continue
        each, running = fidelity(name, source, target, options.covers, options.rounds)
        found.append(each)
        print(
            f"{name:<20}{each.covers:>7}{each.rank:>7.2f}{each.loss:>13.2f}{each.ratio:>20.2f}{each.chosen_us:>11.1f}",
            flush=True,
        )
        _keep(name, running, target)
    rank, loss = statistics.mean(each.rank for each in found), statistics.mean(each.loss for each in found)
    verdict = "reached" if rank >= WANTED_RANK and all(each.loss <= WANTED_LOSS for each in found) else "NOT reached"
    told = f"mean rank {rank:.3f}, mean chosen/best {loss:.3f}: {WANTED_RANK} and {WANTED_LOSS} {verdict}"
    print(told)
    if not options.only:
        _summarise(found, target, told)


def _summarise(found: list[Fidelity], target: Target, told: str) -> None:
    """All programs as CSV, after what they were measured on."""
    with (FOLDER / "summary.csv").open("w", newline="", encoding="utf-8") as file:
        file.write(
            f"# commit {commit()}, load {load()}, {target.name}, {target.units} cores, {target.source}; {told}\n"
        )
        rows = csv.writer(file)
        rows.writerow([each.name for each in fields(Fidelity)])
        rows.writerows(
            [f"{value:.4g}" if isinstance(value, float) else value for value in astuple(each)] for each in found
        )


def _keep(name: str, running: list[Running], target: Target) -> None:
    """The covers as CSV, and their launches in the log."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name.replace(' ', '_')}.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("cover", "kernels", "predicted_us", "measured_us"))
        for number, each in enumerate(running):
            times = (each.predicted_ns, each.measured_ns)
            rows.writerow((number, len(each.prices), *(f"{ns / 1e3:.3f}" for ns in times)))
    for each in running:
        log.append(target, name, each.launches)


if __name__ == "__main__":
    main()
