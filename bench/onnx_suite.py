"""ONNX's own tests of backends, on the CPU: which pass, and why the others do not.

    python -m bench.onnx_suite [--only slice] [--seconds 120] [--jobs 2] [--update]

Every test compiles its model and compares the outputs with the expected ones. Some expected outputs were rounded at
every operator, to fp16 for example, and eqsat's are not within the test's tolerance of them. If the largest error of
eqsat's outputs, against a playback in fp64, is no larger than that of the expected ones, the verdict is "nearer to
fp64", which counts as neither passed nor wrong. So does "as torch and onnxruntime", where these differ from ONNX.

`--update` writes the verdicts to `bench/results/onnx_suite.json`; without it, differences from that file are printed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import unittest
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.progress import track

from bench.facts import RESULTS
from bench.time_limit import time_limit
from eqsat import onnx_backend
from eqsat.model import read_model
from eqsat.runtime.verify import relative_error
from ir.diagnostics import EqsatError
from ir.tiny.playback import playback

PATH = RESULTS / "onnx_suite.json"
PASSED, NEARER, WRONG, LATE, CRASHED = "passed", "nearer to fp64", "wrong result", "time limit", "crash"
AS_OTHERS = "as torch and onnxruntime"
OF_FRACTIONAL_LENGTHS = {
    "test_resize_downsample_scales_linear_align_corners_cpu",
    "test_resize_downsample_scales_cubic_align_corners_cpu",
}
"""Tests whose results have 2.4 elements where corners are aligned; torch and onnxruntime, and so eqsat, take 2."""


class Verdict(NamedTuple):
    """How a test ended. kind: one of the constants above, or the kind of an EqsatError."""

    name: str
    kind: str
    reason: str
    seconds: float


class NearerError(AssertionError):
    """The outputs are not the expected ones, but no further from the model's outputs in fp64."""


class RecordingBackend:
    """eqsat's backend. `model` and `inputs` are of its last run."""

    supports_device = staticmethod(onnx_backend.supports_device)
    is_compatible = staticmethod(onnx_backend.is_compatible)
    model: Any
    inputs: Sequence[Any]

    def prepare(self, model: Any, device: str = "CPU", **options: Any) -> RecordingBackend:
        self.model, self._prepared = model, onnx_backend.prepare(model, device, **options)
        return self

    def run(self, inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
        self.inputs = inputs
        return self._prepared.run(inputs)


def test_cases() -> Mapping[str, Any]:
    """The test classes of ONNX's suite, by name."""
    from onnx.backend.test import BackendTest

    backend = RecordingBackend()

    class Suite(BackendTest):  # type: ignore[misc]
        @classmethod
        def assert_similar_outputs(cls, ref_outputs: Any, outputs: Any, *args: Any, **named: Any) -> None:
            try:
                super().assert_similar_outputs(ref_outputs, outputs, *args, **named)
            except AssertionError as error:
                if is_nearer(outputs, ref_outputs, outputs_in_fp64(backend.model, backend.inputs)):
                    raise NearerError(str(error)) from error
                raise

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases: Mapping[str, Any] = Suite(backend, __name__).test_cases
    return cases


def outputs_in_fp64(model: Any, inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The outputs of an ONNX model whose floats are all fp64, by playback."""
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in stored]
    constants = {name: np.asarray(value) for name, value in zip(names, inputs, strict=False)}
    bound = read_model(model, constants=constants).bind({}, False)
    return playback(bound.graph, bound.constants, wide=True)


def is_nearer(results: Sequence[Any], expected: Sequence[Any], exact: Sequence[Any]) -> bool:
    """Whether every output that was found is of the expected type, and no further from the exact one than that is."""
    return all(
        (a.dtype, a.shape) == (b.dtype, b.shape) and relative_error(a, x) <= relative_error(b, x) < np.inf
        for a, b, x in zip(results, expected, exact, strict=True)
    )


def names_of(cases: Mapping[str, Any], only: str) -> list[str]:
    """The CPU tests whose names contain a text, as `class.test`."""
    names = [f"{name}.{test}" for name, case in cases.items() for test in dir(case) if test.startswith("test_")]
    return [name for name in names if name.endswith("_cpu") and only in name]


_cases: dict[str, Any] = {}


def run_test(task: tuple[str, int]) -> Verdict:
    """Runs a test within a time limit, in seconds."""
    name, limit = task
    if not _cases:
        _cases.update(test_cases())
    start = time.perf_counter()
    with time_limit(limit):
        kind, reason = _run(*name.split("."))
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
        kind = AS_OTHERS if test in OF_FRACTIONAL_LENGTHS else NEARER if isinstance(error, NearerError) else WRONG
        return kind, " ".join(str(error).split())[:200]
    except Exception as error:  # whatever else a test raises is a defect of eqsat
        return CRASHED, f"{type(error).__name__}: {error}"[:200]
    return PASSED, ""


def differences(verdicts: Sequence[Verdict], stored: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The tests that end otherwise than in the stored verdicts."""
    kinds = {name: verdict["kind"] for name, verdict in stored.items()}
    return [
        f"{verdict.name}: {kinds.get(verdict.name, 'not run')} → {verdict.kind} {verdict.reason}"
        for verdict in verdicts
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
        verdicts = list(track(pool.imap_unordered(run_test, tasks), "ONNX's tests", len(tasks)))
    for kind, count in Counter(verdict.kind for verdict in verdicts).most_common():
        print(f"{count:6} {kind}")
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    for line in differences(verdicts, stored):
        print(line)
    if options.update:
        fresh = {verdict.name: {"kind": verdict.kind, "reason": verdict.reason} for verdict in verdicts}
        PATH.write_text(json.dumps(dict(sorted({**stored, **fresh}.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
