"""What a person with twenty minutes of a GPU runs: `python -m bench.gpu --all`. The most valuable first, each step in a
process of its own with its time; a step that passed is not run again."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.facts import RESULTS, ROOT
from bench.gpu.results import Results

DEVICE_TESTS = (
    "tests/codegen/run/test_cuda_device.py",
    "tests/codegen/lower/gpu",
    "tests/eqsat/programs/test_gpu_device.py",
)
SMOKE = ("tests/eqsat/programs/test_gpu_device.py", "-k", "programs_compute")
SANITIZED = ("tests/codegen/lower/gpu/test_kernels_on_devices.py", "-p", "tests.support.exact_memory")
"""Every template of kernels, small, between the ends of its arrays."""
TOOLKIT = "/usr/local/cuda/bin"
"""Where CUDA's tools are that nobody put on PATH."""
TAIL = 4000
"""Characters of a step's output that are kept."""


@dataclass(frozen=True)
class Step:
    """`command` is given the seconds that it may take, at most `seconds`; None: it is not there, which is said.
    `goes_on`: it is run again although it passed, as it goes on where it ended."""

    name: str
    seconds: float
    command: Callable[[float], Sequence[str] | None]
    goes_on: bool = False


def steps(folder: Path) -> list[Step]:
    """In the order of what they are worth; `folder` is that of the results."""
    return [
        Step("smoke", 120, lambda _: _pytest(*SMOKE, *_replaced())),
        Step("fixtures", 150, lambda _: _python("bench.record_device_functions", *_kept(folder))),
        Step("marks", 300, lambda left: _bench(folder, left), goes_on=True),
        Step("tests", 300, lambda _: _pytest(*DEVICE_TESTS, *_replaced())),
        Step("bench", 720, lambda left: _bench(folder, left), goes_on=True),
        *(Step(f"sanitizer {tool}", 120, _sanitizer(tool)) for tool in ("memcheck", "racecheck", "synccheck")),
        Step("autotuned", 300, lambda left: _bench(folder, left, "--autotune"), goes_on=True),
    ]


def session(facts: Mapping[str, Any], folder: Path, deadline: float) -> int:
    """Runs the steps until the deadline (`time.monotonic`); 0 where all that ran passed."""
    for step in steps(folder):
        done = Results(facts, folder).steps.get(step.name, {})
        if done.get("passed") and not step.goes_on:
            print(f"{step.name}: passed already", flush=True)
            continue
        left = deadline - time.monotonic()
        row = run(step, left) if left > 20 else {"step": step.name, "skipped": "there was no time left"}
        Results(facts, folder).keep_step(row)
    rows = Results(facts, folder).steps.values()
    for row in rows:
        print(f"{row['step']}: {_verdict(row)}")
    return 0 if all(row.get("passed") or "skipped" in row for row in rows) else 1


def run(step: Step, left: float) -> dict[str, Any]:
    """The row of a step. What it leaves running is ended with it."""
    seconds = min(step.seconds, left)
    command = step.command(seconds)
    if command is None:
        return {"step": step.name, "skipped": "the tool is not there"}
    print(f"{step.name}: {' '.join(command)}", flush=True)
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    lines: list[str] = []
    shown = threading.Thread(target=_show, args=(process.stdout, lines))
    shown.start()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        lines.append(f"ended after {seconds:.0f} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shown.join()
    took = round(time.monotonic() - start, 1)
    passed, output = process.returncode == 0, "".join(lines)[-TAIL:]
    return {"step": step.name, "passed": passed, "seconds": took, "status": process.returncode, "output": output}


def _show(stream: IO[str], lines: list[str]) -> None:
    """Prints what a process prints, and keeps it."""
    for line in stream:
        print(line, end="", flush=True)
        lines.append(line)


def _verdict(row: Mapping[str, Any]) -> str:
    if "skipped" in row:
        return f"skipped, {row['skipped']}"
    return f"{'passed' if row['passed'] else 'failed'} in {row['seconds']} s"


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _pytest(*arguments: str) -> list[str]:
    return _python("pytest", "-m", "gpu", "-q", "-rs", "-p", "no:cacheprovider", *arguments)


def _replaced() -> Sequence[str]:
    """Tests in a process that another takes the place of when a kernel faults or hangs."""
    return ("-n", "1") if importlib.util.find_spec("xdist") else ()


def _bench(folder: Path, seconds: float, *options: str) -> list[str]:
    return _python("bench.gpu", "--to", str(folder), "--minutes", f"{(seconds - 20) / 60:.2f}", *options)


def _sanitizer(tool: str) -> Callable[[float], Sequence[str] | None]:
    def command(seconds: float) -> Sequence[str] | None:
        found = shutil.which("compute-sanitizer", path=os.pathsep.join((os.environ.get("PATH", ""), TOOLKIT)))
        return [found, "--tool", tool, "--error-exitcode", "9", *_pytest(*SANITIZED)] if found else None

    return command


def _kept(folder: Path) -> Sequence[str]:
    """Fixtures go where the tests look for them, unless the results go elsewhere, from where all is carried home."""
    return () if folder == RESULTS else ("--to", str(folder))
