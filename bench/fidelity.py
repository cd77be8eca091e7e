"""Compares predicted with measured times, on covers of every program and a Target calibrated without them.

    python -m bench.fidelity [MODEL...] [--only TEXT] [--covers 30] [--rounds 20] [--fresh] [--out FOLDER]

`eqsat.studies.fidelity` (and `eqsat fidelity MODEL`) measures; the bench adds programs, goals and a plot. On a busy
machine bind the bench to one core with `taskset -c 1`; Target and programs then have a single thread. Writes to
`bench/results/fidelity/` or `--out`: the covers of every program and a summary as CSV, the summary as a table, all
covers as a plot; and every launch to the log beside that folder.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.arguments import containing, count
from bench.facts import RESULTS, commit, load, warn_of_load
from bench.programs import programs
from eqsat.find_target import calibrated_target
from eqsat.studies.fidelity import HEAD, Fidelity, ProgramFidelity, measure_fidelity
from ir.diagnostics import EqsatError

WANTED_RANK, WANTED_LOSS = 0.85, 1.10
"""Goals: the least mean rank correlation, and the most time of a chosen cover relative to the best."""
FOLDER = RESULTS / "fidelity"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("own", nargs="*", metavar="MODEL", help="files of models, in place of the programs")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--covers", type=count, default=30)
    parser.add_argument("--rounds", type=count, default=20)
    parser.add_argument("--fresh", action="store_true", help="calibrate anew")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder of the results")
    options = parser.parse_args()
    sources = {Path(path).name: path for path in options.own} or programs()
    chosen = containing(parser, options.only, sources)
    warn_of_load()
    target = calibrated_target(again=options.fresh)
    print(HEAD)
    study = measure_fidelity(
        {name: sources[name] for name in chosen},
        target=target,
        covers=options.covers,
        rounds=options.rounds,
        report=_tell,
    )
    verdict = _verdict(study.results)
    print(verdict)
    if study.programs and not options.only:
        from bench.plots import covers

        study.write(options.out, commit())
        about = f"commit {commit()}, load {load()}, {target.name}, {target.units} cores, {target.source}; {verdict}"
        (options.out / "summary.txt").write_text(f"{about}\n{study}\n", encoding="utf-8")
        points = {name: [times[1:] for times in program.covers] for name, program in study.programs.items()}
        covers(points, options.out / "predicted_against_measured.png")
        print(f"written to {options.out}")
    if study.failures:
        raise SystemExit(f"failed: {', '.join(study.failures)}")


def _tell(name: str, result: ProgramFidelity | EqsatError) -> None:
    print(f"{name:<20} failed: {result}" if isinstance(result, EqsatError) else result.result, flush=True)


def _verdict(results: Sequence[Fidelity]) -> str:
    if not results:
        return "no program was measured"
    rank = statistics.mean(result.rank for result in results)
    losses = [result.loss for result in results]
    verdict = "reached" if rank >= WANTED_RANK and max(losses) <= WANTED_LOSS else "NOT reached"
    means = f"mean rank {rank:.3f}, mean chosen/best {statistics.mean(losses):.3f}"
    return f"{means}: {WANTED_RANK} and {WANTED_LOSS} {verdict}"


if __name__ == "__main__":
    main()
