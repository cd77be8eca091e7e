"""Samples → how each of them ends. Samples are computed together, as the results of one program, because a program of
fifty samples compiles in the time of a few programs of one. If such a program fails, its samples are divided."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.testing._comparison import default_tolerances

from bench.opinfo.samples import Sample, in_fp64
from bench.time_limit import time_limit
from eqsat.frontends.complex_tensor import ComplexTensor, as_floats, from_interleaved
from eqsat.frontends.torch.backend_options import BackendOptions
from eqsat.frontends.torch.compiled_graph import CompiledGraph
from eqsat.frontends.torch.complex_memory import complex_of, in_floats
from eqsat.frontends.torch.element_types import element_type
from eqsat.frontends.torch.lower_graph import lower_graph
from eqsat.frontends.torch.survey import TorchSurvey
from eqsat.frontends.torch.trace import trace
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.runtime.arrays import Family, as_numpy, give_back
from eqsat.tensor import Tensor, input
from ir.diagnostics import EqsatError, Kind
from ir.tiny.bind import load
from ir.tiny.playback import playback

RIGHT, RIGHT_IN_FP64, WRONG, CRASH, LATE = "right", "right in fp64", "wrong", "crash", "time limit"
AS_TRACED = "as torch's decomposition"
UNSUPPORTED, UNTRACEABLE, OUT_OF_SCOPE = "unsupported", "untraceable", "out of scope"


class Outcome(NamedTuple):
    """How a sample ended. kind: one of the constants above. reason: the missing operators, the difference, or the
    error."""

    kind: str
    reason: str = ""


Execute = Callable[[Any, Sequence[torch.Tensor]], list[Any]]
"""The results of an FX graph for these tensors."""


def by_kernels(graph: Any, tensors: Sequence[torch.Tensor]) -> list[Any]:
    """By eqsat's kernels, the way of `torch.compile`."""
    return CompiledGraph(graph, BackendOptions(fallback=False, program={"target": "cpu"}))(*tensors)


def by_playback(graph: Any, given: Sequence[Any]) -> list[Any]:
    """By NumPy's evaluation of the lowering. given: tensors, and numbers for sizes."""
    values: list[Any] = []
    arrays: dict[str, np.ndarray] = {}
    arguments: list[Tensor] = []
    for place, value in enumerate(given):
        if not isinstance(value, torch.Tensor):
            values.append(value)
            continue
        name = f"x{place}"
        tensor = in_floats(value.detach())
        arrays[name] = as_numpy(name, tensor)
        arguments.append(input(name, tuple(tensor.shape), element_type(tensor.dtype)))
        values.append(from_interleaved(arguments[-1]) if value.is_complex() else arguments[-1])
    results = lower_graph(graph, values)
    outputs = [result for result in map(as_floats, results) if isinstance(result, Tensor)]
    tiny, constants = tensor_to_tiny(outputs, arguments)
    loaded, _ = load(tiny)
    computed = iter(playback(loaded, {**arrays, **constants}))

    def taken(result: Any) -> Any:
        if not isinstance(result, Tensor | ComplexTensor):
            return result
        tensor = give_back(np.array(next(computed), order="C"), Family.TORCH)
        return complex_of(tensor) if isinstance(result, ComplexTensor) else tensor

    return list(map(taken, results))


def run_samples(
    samples: Sequence[Sample], execute: Execute, tolerances: dict[str, float], seconds: int, together: int
) -> list[Outcome]:
    """The outcomes, in order.

    Args:
        seconds: the time limit of a program, in which its samples are traced, lowered, compiled and run.
        together: the most samples in a program.
    """
    outcomes: dict[int, Outcome] = {
        place: Outcome(OUT_OF_SCOPE, sample.scope) for place, sample in enumerate(samples) if sample.scope
    }
    places = [place for place in range(len(samples)) if place not in outcomes]

    def traceable(batch: Sequence[int]) -> list[int]:
        """The samples that torch traces and that eqsat can lower; the outcomes of the others are noted."""
        try:
            with _limit(seconds):
                _trace([samples[place] for place in batch])
        except _Failure as failure:
            if len(batch) == 1:
                outcomes[batch[0]] = failure.outcome
                return []
            return [place for half in _halves(batch) for place in traceable(half)]
        return list(batch)

    waiting: list[Sequence[int]] = [places[start : start + together] for start in range(0, len(places), together)]
    while waiting:
        batch = waiting.pop()
        try:
            with _limit(seconds):
                results = _results([samples[place] for place in batch], execute)
        except _Failure as failure:
            if len(batch) == 1:
                outcomes[batch[0]] = failure.outcome
                continue
            rest = traceable(batch)
            waiting += [rest] if 0 < len(rest) < len(batch) else _halves(rest) if rest else []
        else:
            outcomes |= {
                place: _compare(samples[place], ours, tolerances) for place, ours in zip(batch, results, strict=True)
            }
    return [outcomes[place] for place in range(len(samples))]


def _halves(batch: Sequence[int]) -> list[Sequence[int]]:
    return [batch[: len(batch) // 2], batch[len(batch) // 2 :]]


class _Failure(Exception):  # noqa: N818 - a way to leave, no error
    def __init__(self, kind: str, reason: str = "") -> None:
        super().__init__(kind, reason)
        self.outcome = Outcome(kind, reason)


def _trace(batch: Sequence[Sample]) -> Any:
    """The graph of the samples together, which eqsat can lower."""

    def call_all(*given: torch.Tensor) -> list[torch.Tensor]:
        rest = list(given)
        results = []
        for sample in batch:
            count = len(sample.tensors)
            results += sample.call(*rest[:count])
            del rest[:count]
        return results

    try:
        graph = trace(call_all, *(tensor for sample in batch for tensor in sample.tensors))
    except TimeoutError:
        raise _Failure(LATE, "trace") from None
    except Exception as error:
        raise _Failure(UNTRACEABLE, _short(error)) from None
    missing = TorchSurvey().missing_operators(graph.graph.nodes)
    if missing:
        raise _Failure(UNSUPPORTED, ", ".join(missing))
    return graph


def _results(batch: Sequence[Sample], execute: Execute) -> list[list[torch.Tensor]]:
    """The tensors among the results of each sample, computed by one program."""
    graph = _trace(batch)
    try:
        results = iter(execute(graph, [tensor for sample in batch for tensor in sample.tensors]))
    except TimeoutError:
        raise _Failure(LATE) from None
    except EqsatError as error:
        first = error.diagnostics[0]
        kind = UNSUPPORTED if error.kind is Kind.UNSUPPORTED_OP else CRASH
        raise _Failure(kind, f"{first.op or first.kind}: {first.message}"[:160]) from None
    except Exception as error:  # whatever else a lowering raises is a defect of eqsat
        raise _Failure(CRASH, _short(error)) from None
    return [[next(results) for _ in sample.expected] for sample in batch]


def _compare(sample: Sample, results: Sequence[Any], tolerances: dict[str, float]) -> Outcome:
    for ours, theirs in zip(results, sample.expected, strict=True):
        try:
            torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerances)
        except (AssertionError, TypeError) as error:
            return Outcome(_kind_of_difference(sample, results, tolerances), _short(error))
    return Outcome(RIGHT)


def _kind_of_difference(sample: Sample, results: Sequence[Any], tolerances: dict[str, float]) -> str:
    if _is_right_in_fp64(sample, results, tolerances):
        return RIGHT_IN_FP64
    try:
        torch.testing.assert_close(results, _as_traced(sample), equal_nan=True, **tolerances)
    except (AssertionError, TypeError):
        return WRONG
    return AS_TRACED


def _as_traced(sample: Sample) -> list[Any]:
    """The results of eager for torch's decomposition of the operator, which may differ from the operator itself."""
    tensors = sample.tensors
    return list(trace(sample.call, *tensors)(*tensors))


def _is_right_in_fp64(sample: Sample, results: Sequence[Any], tolerances: dict[str, float]) -> bool:
    """Whether each result has eager's dtype and shape, and is within the tolerances of the result in fp64, or no
    further from it than eager's."""
    try:
        exact = sample.in_fp64()
    except Exception:  # an operator may have no results for fp64
        return False
    return all(
        isinstance(ours, torch.Tensor)
        and (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        and (_is_close(ours, best, tolerances) or _error(ours, best) <= _error(theirs, best) < math.inf)
        for ours, theirs, best in zip(results, sample.expected, exact, strict=True)
    )


def _is_close(result: torch.Tensor, exact: torch.Tensor, tolerances: dict[str, float]) -> bool:
    given = tolerances or dict(zip(("rtol", "atol"), default_tolerances(result), strict=True))
    return bool(torch.allclose(in_fp64(result), in_fp64(exact), equal_nan=True, **given))


def _error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """The greatest difference of an element; infinite where one of the two is no finite number and they differ."""
    if not result.numel():
        return 0.0
    same = (result == exact) | (result.isnan() & exact.isnan())
    difference = torch.where(same, 0.0, (in_fp64(result) - in_fp64(exact)).abs())
    return float(difference.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _short(error: Exception) -> str:
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:200]


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Ends a sample after so many seconds."""
    try:
        with time_limit(seconds):
            yield
    except TimeoutError:
        raise _Failure(LATE) from None
