"""ONNX's own tests of backends, on the CPU: which pass, and why the others do not.

    python -m bench.onnx_suite [--only slice] [--seconds 120] [--jobs 2] [--update]

Every test compiles its model and compares the outputs with the expected ones. `--update` writes the verdicts to
`bench/results/onnx_suite.json`; without it, differences from that file are printed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import time
import unittest
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from rich.progress import track

from bench.facts import RESULTS
from ir.diagnostics import EqsatError

PATH = RESULTS / "onnx_suite.json"
PASSED, WRONG, LATE, CRASHED = "passed", "wrong result", "time limit", "crash"


class Verdict(NamedTuple):
    """How a test ended. kind: "passed", the kind of an EqsatError, "wrong result", "time limit" or "crash"."""

    name: str
    kind: str
    reason: str
    seconds: float


def test_cases() -> Mapping[str, Any]:
    """The test classes of ONNX's suite, by name."""
    from onnx.backend.test import BackendTest

    import eqsat.onnx_backend

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases: Mapping[str, Any] = BackendTest(eqsat.onnx_backend, __name__).test_cases
    return cases


def names_of(cases: Mapping[str, Any], only: str) -> list[str]:
    """The CPU tests whose names contain a text, as `class.test`."""
    names = [f"{name}.{test}" for name, each in cases.items() for test in dir(each) if test.startswith("test_")]
    return [name for name in names if name.endswith("_cpu") and only in name]


_cases: dict[str, Any] = {}


def run_test(task: tuple[str, int]) -> Verdict:
    """Runs a test within a time limit, in seconds."""
    name, limit = task
    if not _cases:
        _cases.update(test_cases())
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(limit)
    start = time.perf_counter()
    kind, reason = _run(*name.split("."))
    signal.alarm(0)
    return Verdict(name.split(".")[1], kind, reason, round(time.perf_counter() - start, 2))


def _run(class_: str, test: str) -> tuple[str, str]:
    try:
        case = _cases[class_](test)
        case.setUp()
        getattr(case, test)()
    except unittest.SkipTest as error:
        return "skipped", str(error)
    except TimeoutError:
        return LATE, ""
    except EqsatError as error:
        return str(error.kind), error.diagnostics[0].message
    except AssertionError as error:
        return WRONG, " ".join(str(error).split())[:200]
    except Exception as error:  # whatever else a test raises is a defect of eqsat
        return CRASHED, f"{type(error).__name__}: {error}"[:200]
    return PASSED, ""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeoutError


def differences(found: Sequence[Verdict], stored: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The tests that end otherwise than in the stored verdicts."""
    kinds = {name: verdict["kind"] for name, verdict in stored.items()}
    return [
        f"{verdict.name}: {kinds.get(verdict.name, 'not run')} → {verdict.kind} {verdict.reason}"
        for verdict in found
        if kinds.get(verdict.name) != verdict.kind
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="the tests whose names contain this")
    parser.add_argument("--seconds", type=int, default=120, help="the limit of each test")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--update", action="store_true", help="write the verdicts")
    options = parser.parse_args()
    tasks = [(name, options.seconds) for name in names_of(test_cases(), options.only)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        found = list(track(pool.imap_unordered(run_test, tasks), "ONNX's tests", len(tasks)))
    for kind, count in Counter(verdict.kind for verdict in found).most_common():
        print(f"{count:6} {kind}")
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    for line in differences(found, stored):
        print(line)
    if options.update:
        fresh = {verdict.name: {"kind": verdict.kind, "reason": verdict.reason} for verdict in found}
        PATH.write_text(json.dumps(dict(sorted({**stored, **fresh}.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
