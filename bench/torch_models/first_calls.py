"""What a system makes of a model in a new process: results, losses, and how long the first calls took."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.torch_models.systems import EQSAT, Workload, forward_pass, tensors_of, training_step
from eqsat import EqsatWarning
from eqsat.runtime.compiled import KernelReport


class FirstCalls(NamedTuple):
    """results: of a forward pass. losses: of training steps. forward_s, step_s: wall time of the first forward pass and
    of the first step, with compiling. warnings: of operators that eqsat leaves to eager. kernels: of eqsat's forward
    pass, measured."""

    results: list[np.ndarray]
    losses: list[float]
    forward_s: float
    step_s: float
    warnings: list[str]
    kernels: Sequence[KernelReport]


def first_calls(workload: Workload, system: str, steps: int) -> FirstCalls:
    """Runs a forward pass and so many training steps. Call it in a new process, with the cache folders in its
    environment."""
    programs: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqsatWarning)
        forward = forward_pass(workload, system, programs.append if system == EQSAT else None)
        results, forward_s = _timed(forward)
        losses, step_s = [], 0.0
        if steps:
            step = training_step(workload, system)
            loss, step_s = _timed(step)
            losses = [loss, *(step() for _ in range(steps - 1))]
    kernels = [report for program in programs for report in program.profile(**program.random_inputs(), repeats=5)]
    arrays = [tensor.numpy() for tensor in tensors_of(results)]
    messages = [str(one.message) for one in caught if issubclass(one.category, EqsatWarning)]
    return FirstCalls(arrays, losses, forward_s, step_s, messages, kernels)


def in_new_process(workload: Workload, system: str, steps: int) -> FirstCalls:
    """The first calls of a system in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(first_calls, (workload, system, steps))


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def result_difference(ours: FirstCalls, theirs: FirstCalls) -> float:
    """The largest difference of a result, relative to its greatest value."""
    pairs = zip(ours.results, theirs.results, strict=True)
    return max(float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)) for one, other in pairs)


def loss_difference(ours: FirstCalls, theirs: FirstCalls) -> float:
    """The largest difference of a step's loss, relative to the first loss; 0 without training."""
    pairs = zip(ours.losses, theirs.losses, strict=False)
    return max((abs(one - other) / abs(theirs.losses[0]) for one, other in pairs), default=0.0)
