"""Generated C of many programs under the sanitizers: each batch in a process of its own, on each instruction set in
turn; every third batch is looked at for races between tasks, the others for memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from codegen.compile.machine import ARCHES, machine
from tests.stress.programs import RANDOM, WRITTEN, batch
from tests.stress.sanitized import check

SECONDS = 600
"""Of one batch, whose programs must be optimized, compiled three times as slowly as usual, and run."""


@dataclass(frozen=True)
class Outcome:
    """Of one batch: `skipped` says why its programs could not be made, `complaint` what the sanitizers said."""

    number: int
    arch: str
    races: bool
    kernels: int = 0
    complaint: str = ""
    skipped: str = ""

    def __str__(self) -> str:
        said = self.complaint or (f"skipped: {self.skipped}" if self.skipped else "nothing to say")
        kind = "races" if self.races else "memory"
        return f"batch {self.number}, {self.arch}, {kind}, {self.kernels} kernels: {said}"


def sanitize(programs: int, seed: int, jobs: int, tell: Callable[[str], None]) -> list[Outcome]:
    """The outcome of as many batches as hold that many programs."""

    def run(number: int) -> Outcome:
        result = _apart(seed, number)
        tell(str(result))
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, range(-(-programs // (RANDOM + WRITTEN)))))


def _apart(seed: int, number: int) -> Outcome:
    """The outcome of a batch, computed by a process that may die or hang."""
    here = machine().arch
    known = ARCHES[: ARCHES.index(here) + 1] if here in ARCHES else (here,)
    arch, races = known[number // 3 % len(known)], number % 3 == 2
    command = [sys.executable, "-m", "tests.stress.sanitize", str(seed), str(number), str(int(races))]
    environment = {**os.environ, **({"EQSAT_ISA": arch} if arch in ARCHES else {})}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(number, arch, races, skipped=f"more than {SECONDS} s")
    if done.returncode:
        return Outcome(number, arch, races, skipped=done.stderr.strip()[-400:] or f"exit status {done.returncode}")
    return Outcome(number, arch, races, **json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    seed, number, races = map(int, sys.argv[1:])
    result = check(batch(seed, number), bool(races))
    print(json.dumps({"kernels": result.kernels, "complaint": result.complaint}))


if __name__ == "__main__":
    main()
