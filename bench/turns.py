"""Systems compute the same case in turns, each in a process of its own, so that thread pools do not disturb each other.

Outputs are compared before anything is timed. The order of the turns is reversed in every second round. Calls go
through the systems' public Python APIs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

TARGET_SECONDS = 0.02
"""A sample repeats a case as often as fits into this time, unless the case says another time."""
FIRST_RUNS = 5
"""Runs of which the fastest says how many fit into a sample: the first ones meet cold caches."""
WARMING = 4
"""A quarter of a sample's runs come before it, so that caches, threads and the cores' clocks are as in the sample."""
PAUSE_SECONDS = 0.05
"""Pause between turns: a peer's threads spin for a while after its run, and would take a core from the next system."""
BEGIN_SECONDS = 600.0
"""Longest time until a system has built a case and has run it once."""

Runner = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One computation in several systems. The first system's output is compared with all others'.

    builders: system → number of threads → runner that computes the output.
    tolerance: the largest difference of an output, relative to the largest value.
    seconds: a sample repeats the case as often as fits into this time.
    """

    name: str
    tolerance: float
    builders: Mapping[str, Callable[[int], Runner]]
    seconds: float = TARGET_SECONDS


Find = Callable[[], Case]
"""Finds a case in any process."""


class Times(NamedTuple):
    """Seconds per run of one system: quartiles of its samples."""

    low: float
    median: float
    high: float


class CannotRunError(Exception):
    """A system has no builder for a case, or its builder failed; the text says why."""


def measure(
    find: Find,
    threads: int,
    rounds: int,
    skip: Callable[[str, str], None] | None = None,
    of_cpu: bool = False,
) -> dict[str, Times]:
    """The times of all systems over `rounds` samples, taken in turn after one for warming up.

    Args:
        skip: is called with the name of a system other than the first that cannot run the case, or whose output differs
            from most, and the reason; None: that ends the bench.
        of_cpu: CPU seconds of all threads. On one thread other work disturbs them less.

    Raises:
        SystemExit: if the first system's output differs from most, or without `skip` a system cannot run the case or
            differs.
    """
    case = find()
    with _workers(find, case, threads, of_cpu) as pipes:
        outputs: dict[str, np.ndarray] = {}
        for system, pipe in list(pipes.items()):
            first = _receive(pipe, system)
            if isinstance(first, CannotRunError):
                if skip is None or not outputs:
                    raise SystemExit(f"{case.name}: {system}: {first}") from first
                skip(system, str(first))
                del pipes[system]
            else:
                outputs[system] = first
        for system, reason in (differences := _differences(case, outputs)).items():
            if skip is None or 2 * len(differences) >= len(outputs):
                raise SystemExit(f"{case.name}: {reason}: not timed")
            skip(system, reason)
            pipes.pop(system).send(False)
        samples: dict[str, list[float]] = {system: [] for system in pipes}
        for number in range(rounds + 1):
            for system in reversed(list(pipes)) if number % 2 else pipes:
                time.sleep(PAUSE_SECONDS)
                pipes[system].send(True)
                samples[system].append(pipes[system].recv())
        for pipe in pipes.values():
            pipe.send(False)
    return {system: Times(*map(float, np.quantile(taken[1:], (0.25, 0.5, 0.75)))) for system, taken in samples.items()}


def serve(find: Find, system: str, threads: int, of_cpu: bool, pipe: Connection) -> None:
    """Serves one system: sends its output, then, for every message, the seconds per run of one sample."""
    clock = time.process_time if of_cpu else time.perf_counter
    try:
        case = find()
        run = case.builders[system](threads)
        pipe.send(np.asarray(run()))
    except Exception as error:  # a peer may fail in any way
        last = traceback.format_exception_only(error)[-1].strip().splitlines()
        with contextlib.suppress(BrokenPipeError):  # the bench is over
            pipe.send(CannotRunError(last[0] if last else type(error).__name__))
        return

    def sample(repeats: int) -> float:
        start = clock()
        for _ in range(repeats):
            run()
        return (clock() - start) / repeats

    repeats = max(1, int(case.seconds / max(min(sample(1) for _ in range(FIRST_RUNS)), 1e-7)))
    while pipe.recv():
        sample(-(-repeats // WARMING))
        pipe.send(sample(repeats))


def _receive(pipe: Connection, system: str) -> Any:
    if not pipe.poll(BEGIN_SECONDS):
        return CannotRunError(f"no result of {system} in {BEGIN_SECONDS:.0f} s")
    try:
        return pipe.recv()
    except EOFError:
        return CannotRunError(f"the process of {system} died")


@contextlib.contextmanager
def _workers(find: Find, case: Case, threads: int, of_cpu: bool) -> Iterator[dict[str, Connection]]:
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes = []
    for system in case.builders:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(find, system, threads, of_cpu, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes[system] = ours
        processes.append(process)
    try:
        yield pipes
    except BaseException:  # the workers wait for messages that never come
        for process in processes:
            process.kill()
        raise
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def _differences(case: Case, outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The systems whose output is not the first system's, in shape, and in value relative to the largest; and how it
    differs."""
    (first, result), *others = outputs.items()
    differences = {}
    for system, expected in others:
        if result.shape != expected.shape or result.dtype != expected.dtype:
            differences[system] = f"{first} and {system} make different tensors"
            continue
        with np.errstate(invalid="ignore"):
            error = float(np.abs(result - expected).max() / np.abs(expected).max()) if expected.any() else np.inf
        if not error <= case.tolerance:
            differences[system] = f"{first} and {system} differ by {error:.1e}"
    return differences
