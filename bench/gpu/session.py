"""The session on a GPU: `python -m bench.gpu --all`. The most valuable steps come first; every step has a process and a
time limit of its own; a step or test that passed is not run again, so that a session may be cut into slices."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.facts import RESULTS, ROOT
from bench.gpu.journal import JOURNAL, Journal
from bench.gpu.results import Results
from bench.gpu.tables import show_session

DEVICE_TESTS = (
    "tests/codegen/run/test_cuda_device.py",
    "tests/codegen/lower/gpu/test_kernels_on_devices.py",
    "tests/codegen/lower/gpu/test_split_device.py",
    "tests/eqsat/programs/test_gpu_device.py",
)
"""Every test that needs a GPU: a file is a group of the table."""
SMOKE = ("tests/eqsat/programs/test_gpu_device.py", "-k", "programs_compute")
SANITIZED = ("tests/codegen/lower/gpu/test_kernels_on_devices.py", "-p", "tests.support.gpu.exact_memory")
"""Every template of kernels at small sizes; an access beyond an array is an error."""
TOOLKIT = "/usr/local/cuda/bin"
"""The folder of CUDA's tools if they are not on PATH."""
NO_TIME = "there was no time left"
LEAST_SECONDS = 20.0
"""No step is started if less time is left of the session."""
_IN_JOURNAL = ("-p", "tests.support.gpu.journal")
_MOST_PROCESSES = 8
"""Of tests on one GPU: each has a context in its memory."""
_NONE_LEFT = 5
"""pytest's exit status where all tests were left out."""
TAIL = 4000
"""Characters kept of a step's output."""


@dataclass(frozen=True)
class Step:
    """`command` gets the seconds that it may take, at most `seconds`; it returns None if its tool is not installed.
    `goes_on`: the step runs again although it passed, since it continues where it ended. `tests`: the command is
    pytest, with a journal."""

    name: str
    seconds: float
    command: Callable[[float], Sequence[str] | None]
    goes_on: bool = False
    tests: bool = False


def steps(folder: Path) -> list[Step]:
    """The steps, the most valuable first; `folder` is that of the results."""
    return [
        Step("smoke", 120, lambda _: _pytest(*SMOKE, *_IN_JOURNAL, *_in_own_processes()), tests=True),
        Step("fixtures", 150, lambda _: _python("bench.record_device_functions", *_fixture_folder(folder))),
        Step("marks", 300, lambda left: _bench(folder, left), goes_on=True),
        Step("tests", 300, lambda _: _pytest(*DEVICE_TESTS, *_IN_JOURNAL, *_in_own_processes()), tests=True),
        Step("bench", 720, lambda left: _bench(folder, left), goes_on=True),
        *(
            Step(f"sanitizer {tool}", 120, _sanitizer(tool))
            for tool in ("memcheck", "racecheck", "synccheck", "initcheck")
        ),
        Step("autotuned", 300, lambda left: _bench(folder, left, "--autotune"), goes_on=True),
    ]


def session(facts: Mapping[str, Any], folder: Path, deadline: float) -> int:
    """Runs the steps until the deadline (`time.monotonic`). Returns 0 if all steps that ran passed, else 1."""
    for step in steps(folder):
        done = Results(facts, folder).steps.get(step.name, {})
        if done.get("passed") and not step.goes_on:
            print(f"{step.name}: passed already", flush=True)
            continue
        left = deadline - time.monotonic()
        if left > LEAST_SECONDS:
            row = _run_tests(step, left, Journal(done.get("outcomes", {}))) if step.tests else run(step, left)
        else:
            row = {"step": step.name, "skipped": NO_TIME}
        Results(facts, folder).keep_step(done | row if "skipped" in row else row)
    results = Results(facts, folder)
    show_session(results)
    rows = results.steps.values()
    if any(row.get("skipped") == NO_TIME for row in rows):
        print(f"steps are left: run the same command again, with {results.path.name} in the folder of the results")
    return 0 if all(row.get("passed") or "skipped" in row for row in rows) else 1


def _run_tests(step: Step, left: float, journal: Journal) -> dict[str, Any]:
    """Runs a step of tests that have not passed yet; its row holds the outcome of every test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        journal.write(path)
        row = run(step, left, {JOURNAL: str(path)})
        ended = Journal.read(path)
    outcomes = {**journal.outcomes, **ended.outcomes}
    row["passed"] = bool(ended.passed) and row["status"] in (0, _NONE_LEFT) and "lost" not in outcomes.values()
    return row | {"outcomes": outcomes, "kernels": {**journal.kernels, **ended.kernels}}


def run(step: Step, left: float, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Runs a step, ends all its processes, and returns its row."""
    seconds = min(step.seconds, left)
    command = step.command(seconds)
    if command is None:
        return {"step": step.name, "skipped": "the tool is not there"}
    print(f"{step.name}: {' '.join(command)}", flush=True)
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines: list[str] = []
    echo = threading.Thread(target=_echo, args=(process.stdout, lines))
    echo.start()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        lines.append(f"ended after {seconds:.0f} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        echo.join()
    took = round(time.monotonic() - start, 1)
    passed, output = process.returncode == 0, "".join(lines)[-TAIL:]
    return {"step": step.name, "passed": passed, "seconds": took, "status": process.returncode, "output": output}


def _echo(stream: IO[str], lines: list[str]) -> None:
    """Prints the lines of a process, and keeps them."""
    for line in stream:
        print(line, end="", flush=True)
        lines.append(line)


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _pytest(*arguments: str) -> list[str]:
    return _python("pytest", "-m", "gpu", "-q", "-rs", "-p", "no:cacheprovider", *arguments)


def _in_own_processes() -> Sequence[str]:
    """Options that run tests in processes that are replaced if a kernel faults or hangs: half as many as CPU cores,
    since tests mostly compile."""
    if importlib.util.find_spec("xdist") is None:
        return ()
    return "-n", str(min(_MOST_PROCESSES, max(1, (os.cpu_count() or 1) // 2)))


def _bench(folder: Path, seconds: float, *options: str) -> list[str]:
    return _python("bench.gpu", "--to", str(folder), "--minutes", f"{(seconds - 20) / 60:.2f}", *options)


def _sanitizer(tool: str) -> Callable[[float], Sequence[str] | None]:
    def command(seconds: float) -> Sequence[str] | None:
        path = shutil.which("compute-sanitizer", path=os.pathsep.join((os.environ.get("PATH", ""), TOOLKIT)))
        return [path, "--tool", tool, "--error-exitcode", "9", *_pytest(*SANITIZED)] if path else None

    return command


def _fixture_folder(folder: Path) -> Sequence[str]:
    """Fixtures go to the folder that the tests read, unless results go elsewhere: then to the folder of the results."""
    return () if folder == RESULTS else ("--to", str(folder))
