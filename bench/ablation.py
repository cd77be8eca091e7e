"""Measures what every idea is worth, on programs of `bench.programs`, light models, and models of one's own.

    python -m bench.ablation [MODEL...] [--only TEXT] [--kinds family,term,extractor] [--rounds 8]
        [--models squeezenet] [--target NAME] [--out FOLDER]

`eqsat.studies.ablation` (and `eqsat ablate MODEL`) measures; the bench adds programs and two plots (the `bench` extra).
On a busy machine bind the bench to one core: `taskset -c 1`. Writes to `bench/results/ablation/` or `--out`, and every
measured kernel to the log `measurements.csv` beside that folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.arguments import LIGHT, among, containing, count
from bench.facts import RESULTS, commit, load, warn_of_load
from bench.plots import losses, predictions
from bench.programs import programs
from eqsat.find_target import find_target
from eqsat.studies.ablation import ProgramAblation, ablate, summary
from eqsat.studies.knockout_rows import worth
from eqsat.studies.knockouts import KINDS
from ir.diagnostics import EqsatError

FOLDER = RESULTS / "ablation"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("own", nargs="*", metavar="MODEL", help="files of models, in place of the programs")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of knock-outs")
    parser.add_argument("--rounds", type=count, default=8)
    parser.add_argument("--models", default="squeezenet", help="light models, after the programs; may be none")
    parser.add_argument("--target", default="calibrated", help='"cpu" for the nominal figures')
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder of the results")
    options = parser.parse_args()
    kinds = among(parser, "--kinds", options.kinds, KINDS)
    models = among(parser, "--models", options.models, LIGHT)
    sources = {Path(path).name: path for path in options.own} or programs(models)
    chosen = containing(parser, options.only, sources)
    warn_of_load()
    target = find_target(options.target)
    study = ablate(
        {name: sources[name] for name in chosen}, target=target, kinds=kinds, rounds=options.rounds, report=_tell
    )
    if study.programs:
        study.write(options.out, commit())
        machine = f"{target.name} ({target.units} cores, {target.source})"
        print(f"{len(study.programs)} programs on {machine}, commit {commit()}, load {load()}\n{study}")
        predictions(study.rows, options.out / "predicted_against_measured.png")
        losses(worth(study.rows), options.out / "loss_per_knockout.png")
        print(f"written to {options.out}")
    if study.failures:
        raise SystemExit(f"failed: {', '.join(study.failures)}")


def _tell(name: str, result: ProgramAblation | EqsatError) -> None:
    print(f"{name}: failed: {result}" if isinstance(result, EqsatError) else summary(result.rows), flush=True)


if __name__ == "__main__":
    main()
