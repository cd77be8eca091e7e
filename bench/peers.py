"""Compares eqsat with onnxruntime and torch: `python -m bench.peers [--threads N] [--only TEXT] [--rounds N]`.

Every system has a process of its own, so that thread pools do not disturb each other. Outputs are compared before
anything is timed. The systems take turns, in reversed order in every second round. Medians and quartiles are written to
`bench/results/` with versions and machine. Calls go through the systems' public Python APIs.

Weights are constants to eqsat and onnxruntime, which lay them out once; torch's eager API gets them as they are.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

from bench.arguments import containing, count
from bench.cases import Case, cases
from bench.facts import facts, load, warn_of_load, write

TARGET_SECONDS = 0.02
"""A sample repeats the case as often as fits into this time."""
PAUSE_SECONDS = 0.05
"""Pause between turns: a peer's threads spin for a while after its run, and would take a core from the next system."""


Find = Callable[[], Case]
"""Finds a case in any process."""


def case_named(name: str) -> Case:
    """The case of this bench with this name."""
    return cases()[name]


def worker(find: Find, system: str, threads: int, pipe: Connection) -> None:
    """Serves one system: sends its output, then, for every message, the seconds per run of one sample."""
    run = find().builders[system](threads)
    pipe.send(np.asarray(run()))
    start = time.perf_counter()
    run()
    repeats = max(1, int(TARGET_SECONDS / max(time.perf_counter() - start, 1e-7)))
    while pipe.recv():
        run()
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        pipe.send((time.perf_counter() - start) / repeats)


class Times(NamedTuple):
    """Seconds per run of one system: quartiles of its samples."""

    low: float
    median: float
    high: float


def measure(find: Find, threads: int, rounds: int) -> dict[str, Times]:
    """The times of all systems over `rounds` samples, taken in turn after one for warming up."""
    case = find()
    with _workers(find, case, threads) as pipes:
        outputs = {system: pipe.recv() for system, pipe in pipes.items()}
        _check(case, outputs)
        samples: dict[str, list[float]] = {system: [] for system in pipes}
        for number in range(rounds + 1):
            for system in reversed(pipes) if number % 2 else pipes:
                time.sleep(PAUSE_SECONDS)
                pipes[system].send(True)
                samples[system].append(pipes[system].recv())
        for pipe in pipes.values():
            pipe.send(False)
    return {system: Times(*map(float, np.quantile(taken[1:], (0.25, 0.5, 0.75)))) for system, taken in samples.items()}


@contextmanager
def _workers(find: Find, case: Case, threads: int) -> Iterator[dict[str, Connection]]:
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes = []
    for system in case.builders:
        ours, theirs = context.Pipe()
        process = context.Process(target=worker, args=(find, system, threads, theirs), daemon=True)
        process.start()
        theirs.close()  # so that `recv` raises EOFError if the process dies
        pipes[system] = ours
        processes.append(process)
    try:
        yield pipes
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def _check(case: Case, outputs: dict[str, np.ndarray]) -> None:
    """Requires that every peer's output is eqsat's, in shape, and in value relative to the largest."""
    result = outputs["eqsat"]
    for system, expected in outputs.items():
        if result.shape != expected.shape or result.dtype != expected.dtype:
            raise SystemExit(f"{case.name}: eqsat and {system} make different tensors: not timed")
        error = float(np.abs(result - expected).max() / np.abs(expected).max()) if expected.any() else np.inf
        if not error <= case.tolerance:
            raise SystemExit(f"{case.name}: eqsat and {system} differ by {error:.1e}: not timed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--rounds", type=count, default=15)
    parser.add_argument("--only", default="", help="cases whose name contains this; nothing is written")
    options = parser.parse_args()
    known = cases()
    chosen = containing(parser, options.only, known)
    warn_of_load()
    about = {**facts(), "threads": options.threads, "rounds": options.rounds}
    rows = []
    print(f"{'case':<34}{'system':<14}{'ms':>10}{'GFLOP/s':>10}{'eqsat is':>16}")
    for name in chosen:
        case = known[name]
        times = measure(partial(case_named, name), options.threads, options.rounds)
        for system, taken in times.items():
            seconds = taken.median
            ratio = f"{seconds / times['eqsat'].median:.2f}× as fast" if system != "eqsat" else ""
            print(f"{case.name:<34}{system:<14}{seconds * 1e3:>10.3f}{case.flops / seconds / 1e9:>10.1f}{ratio:>16}")
            quartiles = [round(second * 1e3, 6) for second in (taken.low, taken.high)]
            rows.append({"case": case.name, "system": system, "ms": seconds * 1e3, "quartiles": quartiles})
    if not options.only:
        write("peers_cpu", {**about, "load after": load()}, rows)


if __name__ == "__main__":
    main()
