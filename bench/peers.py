"""Side by side with onnxruntime and torch: `python -m bench.peers [--threads N] [--only TEXT] [--rounds N]`.

One process per system, so that no thread pool disturbs another's; outputs are compared before anything is timed;
rounds go round-robin over the systems; medians are reported, with versions and the machine, and written to
`bench/results/`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases import Case, cases

RESULTS = Path(__file__).parent / "results"
TARGET_SECONDS = 0.02
"""A sample runs the case as often as fits into this time."""
PAUSE_SECONDS = 0.05
"""Between turns: a peer's threads spin for a while after its run, and would take a core from the next system."""


def worker(name: str, system: str, threads: int, pipe: Connection) -> None:
    """Serves one system: first its output, then, for every message, the seconds per run of one sample."""
    run = cases()[name].builders[system](threads)
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


def measure(case: Case, threads: int, rounds: int) -> dict[str, float]:
    """Median seconds per run by system, of `rounds` samples taken in turn."""
    with _workers(case, threads) as pipes:
        outputs = {system: pipe.recv() for system, pipe in pipes.items()}
        _check(case, outputs)
        samples: dict[str, list[float]] = {system: [] for system in pipes}
        for _ in range(rounds):
            for system, pipe in pipes.items():
                time.sleep(PAUSE_SECONDS)
                pipe.send(True)
                samples[system].append(pipe.recv())
        for pipe in pipes.values():
            pipe.send(False)
    return {system: float(np.median(taken[1:])) for system, taken in samples.items()}


@contextmanager
def _workers(case: Case, threads: int) -> Iterator[dict[str, Connection]]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for system in case.builders:
        ours, theirs = context.Pipe()
        process = context.Process(target=worker, args=(case.name, system, threads, theirs), daemon=True)
        process.start()
        pipes[system] = ours
        processes.append(process)
    try:
        yield pipes
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def _check(case: Case, outputs: dict[str, np.ndarray]) -> None:
    reference_system = next(system for system in outputs if system != "eqsat")
    reference = outputs[reference_system]
    error = float(np.abs(outputs["eqsat"] - reference).max() / np.abs(reference).max())
    if not error <= case.tolerance:
        raise SystemExit(f"{case.name}: eqsat and {reference_system} differ by {error:.1e}: not timed")


def machine_facts() -> dict[str, Any]:
    """Commit, machine and versions."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    return {
        "commit": commit.stdout.strip(),
        "cpu": model.partition(":")[2].strip(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "torch", "onnxruntime", "egglog")},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    from eqsat.api import examine

    facts = {**machine_facts(), **examine()[0], "threads": options.threads, "rounds": options.rounds}
    rows = []
    print(f"{'case':<34}{'system':<14}{'ms':>10}{'GFLOP/s':>10}{'eqsat is':>12}")
    for case in cases().values():
        if options.only not in case.name:
            continue
        medians = measure(case, options.threads, options.rounds)
        for system, seconds in medians.items():
            ratio = f"{seconds / medians['eqsat']:.2f}× as fast" if system != "eqsat" else ""
            print(f"{case.name:<34}{system:<14}{seconds * 1e3:>10.3f}{case.flops / seconds / 1e9:>10.1f}{ratio:>16}")
            rows.append({"case": case.name, "system": system, "ms": seconds * 1e3})
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "peers_cpu.json"
    if not options.only:
        path.write_text(json.dumps({"facts": facts, "rows": rows}, indent=2) + "\n")
        print(f"written to {path}")


if __name__ == "__main__":
    main()
