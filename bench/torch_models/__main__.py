"""Models of torch in eager, inductor, onnxruntime and eqsat: results and losses compared, then times.

    python -m bench.torch_models [--only bert,gpt2] [--small] [--steps 20] [--rounds 10] [--update] [--resume]

Needs torch, torchvision, transformers and onnxscript. Each system runs in processes of its own. First calls are timed
with empty caches, and with the caches that these calls wrote. Then the systems take turns, as in `bench.peers`; in
inference, inductor and eqsat also with frozen parameters.

`--update` writes the rows into `bench/results/torch_models.json`, a model at a time, each with its machine; `--resume`
leaves out the models that the file has. A model that fails has a row that says why, and `--resume` tries it again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.arguments import among, count
from bench.facts import RESULTS, facts, warn_of_load, write
from bench.onnx_models import furthest_from_roofline
from bench.torch_models.families import families
from bench.torch_models.first_calls import (
    FirstCalls,
    SystemFailedError,
    failure_text,
    in_new_process,
    loss_difference,
    result_difference,
)
from bench.torch_models.systems import EAGER, EQSAT, FROZEN, INDUCTOR, LOSS_TOLERANCE, RESULT_TOLERANCE, Workload
from bench.torch_models.turns import times
from codegen.measure.peaks import measure_peaks
from eqsat.runtime.compiled import KernelReport

NAME = "torch_models"
FAILED = "failed"
"""The column of a row that says why a model has no figures."""
OF_THE_MACHINE = ("cpu", "instruction sets", "fp32 FMA, 2 threads", "copies", "commit", "date")
"""The facts that a row keeps of the machine that measured the row."""
Row = dict[str, Any]


def compare(workload: Workload, steps: int) -> tuple[Row, FirstCalls]:
    """Differences from eager, seconds of first calls, and eqsat's first calls from the cache.

    Raises:
        AssertionError: a result or a loss of eqsat differs from eager's by more than the tolerance.
    """
    steps = steps if workload.family.loss else 0
    eager = in_new_process(workload, EAGER, steps)
    row: Row = {}
    for system in (EQSAT, INDUCTOR):
        try:
            cold, cached = (in_new_process(workload, system, least) for least in (steps, min(steps, 1)))
        except SystemFailedError as failure:
            if system == EQSAT:
                raise
            row[f"no {system}"] = str(failure)
            continue
        differences = result_difference(cold, eager), loss_difference(cold, eager)
        row[f"{system} first calls s"] = _rounded(cold.forward_s, cold.step_s)
        row[f"{system} from cache s"] = _rounded(cached.forward_s, cached.step_s)
        row[f"{system} differences"] = [float(f"{difference:.1e}") for difference in differences]
        if system == EQSAT:
            ours = cached
            row["left to eager"] = cold.warnings
            assert differences[0] <= RESULT_TOLERANCE, f"results differ by {differences[0]:.1e}"
            assert differences[1] <= LOSS_TOLERANCE, f"losses differ by {differences[1]:.1e}"
    return row, ours


def _rounded(forward: float, step: float) -> list[float]:
    return [round(forward, 1), round(step, 1)] if step else [round(forward, 1)]


def row_of(workload: Workload, steps: int, rounds: int, peaks: tuple[float, float]) -> Row:
    """A row of the table."""
    row, ours = compare(workload, steps)
    row |= times(workload, rounds, [INDUCTOR] if f"no {INDUCTOR}" in row else [])
    row["forward kernels"] = furthest_from_roofline(_forward_kernels(workload, row, ours), *peaks)
    if ours.step_kernels:
        row["step kernels"] = furthest_from_roofline(ours.step_kernels, *peaks)
    return {"model": workload.name, **row}


def _forward_kernels(workload: Workload, row: Row, ours: FirstCalls) -> Sequence[KernelReport]:
    """The kernels of the faster of eqsat's two forward passes."""
    times, frozen = row["forward ms"], EQSAT + FROZEN
    return in_new_process(workload, frozen, 0).forward_kernels if times[frozen] < times[EQSAT] else ours.forward_kernels


def written_rows() -> dict[str, Row]:
    """The rows of the table that is there, by model."""
    path = RESULTS / f"{NAME}.json"
    return {row["model"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]} if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="models by name, such as bert,gpt2")
    parser.add_argument("--small", action="store_true", help="two layers and small sizes")
    parser.add_argument("--steps", type=count, default=20)
    parser.add_argument("--rounds", type=count, default=10)
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--update", action="store_true", help="write the rows")
    parser.add_argument("--resume", action="store_true", help="leave out the models that have a row")
    options = parser.parse_args()
    if options.small and options.update:
        parser.error("the table is of the true sizes")
    known = families()
    chosen = among(parser, "--only", options.only, known) or tuple(known)
    rows = written_rows() if options.update or options.resume else {}
    warn_of_load()
    about = {**facts(), "threads": options.threads, "rounds": options.rounds}
    peaks = measure_peaks(copy_megabytes=128)
    roofline = tuple(peak[max(n for n in peak if n <= options.threads)] for peak in (peaks.fma_flops, peaks.copy_bytes))
    failed: list[str] = []
    for name in chosen:
        if options.resume and FAILED not in rows.get(name, {FAILED: ""}):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ["EQSAT_CACHE_DIR"] = f"{folder}/eqsat"
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
            workload = Workload(name, options.small, options.threads, Path(folder))
            try:
                row = row_of(workload, options.steps, options.rounds, (roofline[0], roofline[1]))
                rows[name] = {**row, "machine": {fact: about[fact] for fact in OF_THE_MACHINE}}
            except (Exception, SystemExit) as error:  # the other models go on; `--resume` tries this one again
                rows[name] = {"model": name, FAILED: failure_text(error)}
                failed.append(name)
        print(*(f"{key}: {value}" for key, value in rows[name].items()), sep="\n  ", flush=True)
        if options.update:
            write(NAME, about, [rows[name] for name in known if name in rows])
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
