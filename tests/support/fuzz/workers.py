"""The fuzzer's worker processes, which run ranges of tries. A try that kills or hangs its worker is a finding.

A worker reports its current try. If it dies or is silent for too long, that try is the finding, and the rest of its
range is run again without it. If the worker was busy with the whole range, the range is halved.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import resource
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.support.fuzz.report import Finding, Report

SILENT_SECONDS = 300
"""A worker that says nothing for so long hangs: a try on a loaded machine, and its reduction, reported step by step."""
START_SECONDS = 120
"""More, for a worker that imports all that it needs."""
MEMORY_BYTES = 8 << 30
"""Bytes of address space per worker."""
RANGES_A_WORKER = 40
"""Then another process takes over, which frees what caches hold."""
SPAWN = multiprocessing.get_context("spawn")

Tries = tuple[int, ...]
Run = Callable[[str, int, Sequence[int], Path, Callable[[int | None], object]], Report]
"""(kind, seed, tries, folder of findings, function called with the number of the try that runs) → report."""


def run_tries(kind: str, seed: int, tries: Sequence[int], folder: Path, at: Callable[[int | None], object]) -> Report:
    """The tries of a kind, in this process."""
    if kind == "mutated":
        from tests.support.fuzz.mutated_tries import run_chunk

        return run_chunk(seed, tries, at)
    from tests.support.fuzz.idiom_tries import run_idioms

    return run_idioms(seed, tries, folder, at, emulated=kind == "emulated")


@dataclass
class _Worker:
    """A process, the pipe to it, and its range; `at` is the try that it said it is at."""

    process: BaseProcess
    pipe: Connection
    tries: Tries = ()
    at: int | None = None
    heard: float = field(default_factory=time.monotonic)
    done: int = 0
    is_lost: bool = False

    @property
    def is_spent(self) -> bool:
        """Whether another process must take over."""
        return self.is_lost or self.done >= RANGES_A_WORKER

    @property
    def is_idle(self) -> bool:
        return not self.tries

    def start(self, tries: Tries) -> None:
        self.tries, self.at, self.heard = tries, None, time.monotonic() + (0 if self.done else START_SECONDS)
        self.pipe.send(tries)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def fuzz(
    ranges: Iterator[Tries],
    kind: str,
    seed: int,
    folder: Path,
    jobs: int = 2,
    run: Run = run_tries,
    silent_seconds: float = SILENT_SECONDS,
) -> Iterator[tuple[Tries, Report]]:
    """The report of each range, as it is done; those that were halved or lost a try come in several parts."""
    workers: list[_Worker] = []
    again: deque[Tries] = deque()
    exhausted = False
    try:
        while True:
            while not exhausted and sum(not worker.is_idle for worker in workers) < jobs:
                tries = again.popleft() if again else next(ranges, ())
                if not tries:
                    exhausted = True
                    break
                idle = next((worker for worker in workers if worker.is_idle), None)
                if idle is None:
                    idle = _worker(kind, seed, folder, run)
                    workers.append(idle)
                idle.start(tries)
            busy = [worker for worker in workers if not worker.is_idle]
            if not busy:
                return
            wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in busy:
                result = _heard(worker, silent_seconds)
                if result is None:
                    continue
                tries, report, left = result
                again.extend(left)
                exhausted = exhausted and not again
                if worker.is_spent:
                    worker.stop()
                    workers.remove(worker)
                yield tries, report
    finally:
        for worker in workers:
            worker.stop()


def _heard(worker: _Worker, silent_seconds: float) -> tuple[Tries, Report, list[Tries]] | None:
    """What a worker has done: the tries, their report, and what is to be run again; None while it is at it."""
    try:
        while worker.pipe.poll():
            answer = worker.pipe.recv()
            worker.heard = time.monotonic()
            if isinstance(answer, Report):
                tries, worker.tries = worker.tries, ()
                worker.done += 1
                return tries, answer, []
            worker.at = answer
    except (EOFError, OSError):
        return _lost(worker, "the process died")
    if time.monotonic() - worker.heard > silent_seconds:
        return _lost(worker, f"silent for {silent_seconds:.0f} s")
    return None


def _lost(worker: _Worker, why: str) -> tuple[Tries, Report, list[Tries]]:
    """The guilty try and those to be run again, of a worker that is killed."""
    tries, guilty = worker.tries, worker.at
    worker.tries, worker.is_lost = (), True
    if guilty is None and len(tries) > 1:
        middle = len(tries) // 2
        return (), Report(), [tries[:middle], tries[middle:]]
    guilty = tries[0] if guilty is None else guilty
    rest = tuple(number for number in tries if number != guilty)
    return (guilty,), Report(tries=1, findings=[Finding(guilty, "process", why)]), [rest] if rest else []


def _worker(kind: str, seed: int, folder: Path, run: Run) -> _Worker:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=_serve, args=(theirs, kind, seed, folder, run), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(pipe: Any, kind: str, seed: int, folder: Path, run: Run) -> None:
    """A worker: ranges come in, reports go out."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    while True:
        try:
            tries = pipe.recv()
        except EOFError:
            return
        pipe.send(run(kind, seed, tries, folder, pipe.send))
