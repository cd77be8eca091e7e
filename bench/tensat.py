"""Compares with Tensat's table: how long the graphs take to optimize, and the gain over ordinary fusion.

    python -m bench.tensat [--rounds 3] [--measure] [--threads 2] [--only BERT]

The optimizer's seconds (from Tiny IR to a cover) stand beside Tensat's search, and the gain beside Tensat's. The gain
is the percentage by which the program of ordinary fusion (the rules `ORDINARY` alone) is slower than that of all rules,
as predicted and, with `--measure`, as measured in turns. Tensat's figures are from its paper: other rules, other costs,
a T4 GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from bench.arguments import containing, count
from bench.facts import facts, warn_of_load, write
from bench.optimizing import Sample, in_process, median_of_samples, sample_optimization, table
from bench.tensat_models import TABLE
from rules import ORDINARY

REPEATS = 15


def optimize(name: str, rules: tuple[str, ...] | None) -> Sample:
    """One optimization of a graph."""
    from eqsat.options import check_options

    return sample_optimization(TABLE[name].build, check_options(rules, "rounding", "pareto", "roofline", None))


def measure(name: str, threads: int) -> dict[str, float]:
    """Median milliseconds of a call of both programs, which run in turn.

    Raises:
        SystemExit: if the programs compute different results.
    """
    import numpy as np

    from eqsat import optimize_and_compile

    built = TABLE[name].build()
    rng = np.random.default_rng(0)

    def draw(node: Any) -> Any:
        shape = built.graph.types[node.id].shape
        fan_in = max(1, int(np.prod(shape[1:] if len(shape) == 4 else shape[:1])))
        return (rng.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)

    arrays = {name: draw(node) for name, node in built.graph.inputs.items()}
    constants = {name: arrays.pop(name) for name in built.constants}
    programs = {
        label: optimize_and_compile(built.graph, constants=constants, rules=rules, threads=threads)
        for label, rules in (("ordinary", ORDINARY), ("all", None))
    }
    results = [programs[label](**arrays) for label in programs]
    ours, theirs = (result if isinstance(result, tuple) else (result,) for result in results)
    for a, b in zip(ours, theirs, strict=True):
        if np.linalg.norm(a - b) > 1e-4 * max(float(np.linalg.norm(b)), 1e-30):
            raise SystemExit(f"{name}: the two programs differ; not reported")
    times: dict[str, list[float]] = {label: [] for label in programs}
    for _ in range(REPEATS):
        for label, program in programs.items():
            start = time.perf_counter()
            program(**arrays)
            times[label].append(1e3 * (time.perf_counter() - start))
    return {label: statistics.median(taken) for label, taken in times.items()}


def gain(ordinary: float, best: float) -> float:
    """The percentage by which the first is slower."""
    return 100 * (ordinary / best - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--only", default="", help="the graphs whose names contain this")
    options = parser.parse_args()
    chosen = containing(parser, options.only, TABLE)
    warn_of_load()
    about = {**facts(), "rounds": options.rounds, "threads": options.threads, "ordinary": ORDINARY}
    rows: dict[str, dict[str, Any]] = {}
    for name in chosen:
        entry = TABLE[name]
        ours, plain = (median_of_samples(options.rounds, optimize, name, rules) for rules in (None, ORDINARY))
        rows[name] = {
            **{key: ours[key] for key in ("uops", "e-nodes", "kernels", "peak MiB")},
            "kernels, ordinary": plain["kernels"],
            "optimize s": ours["seconds"]["total"],
            "Tensat's search s": entry.search_s,
            "predicted gain %": round(gain(plain["predicted us"], ours["predicted us"]), 2),
            "Tensat's gain %": entry.gain_percent,
        }
        if options.measure:
            taken = in_process(measure, name, options.threads)
            rows[name] |= {f"{label} ms": round(value, 3) for label, value in taken.items()}
            rows[name]["measured gain %"] = round(gain(taken["ordinary"], taken["all"]), 2)
        print(f"{name}: {rows[name]}", flush=True)
    print(table(rows))
    if not options.only:
        write("tensat", about, [{"graph": name, **row} for name, row in rows.items()])


if __name__ == "__main__":
    main()
