"""What a system makes of a model in a new process: results, losses, and how long the first calls took."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from bench.torch_models.systems import EQSAT, FROZEN, Workload, forward_pass, tensors_of, training_step
from eqsat import EqsatWarning
from eqsat.runtime.compiled import KernelReport

MOST_SECONDS = 900
"""The time limit of a system's first calls."""


class SystemFailedError(Exception):
    """Why a system has no first calls."""


class FirstCalls(NamedTuple):
    """results: of a forward pass. losses: of training steps. forward_s, step_s: wall time of the first forward pass and
    of the first step, with compiling. warnings: of operators that eqsat leaves to eager. forward_kernels, step_kernels:
    eqsat's, measured."""

    results: list[np.ndarray]
    losses: list[float]
    forward_s: float
    step_s: float
    warnings: list[str]
    forward_kernels: Sequence[KernelReport]
    step_kernels: Sequence[KernelReport]


def first_calls(workload: Workload, system: str, steps: int) -> FirstCalls:
    """Runs a forward pass and so many training steps. Call it in a new process, with the cache folders in its
    environment."""
    forward_programs: list[Any] = []
    step_programs: list[Any] = []
    ours = system.removesuffix(FROZEN) == EQSAT
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqsatWarning)
        forward = forward_pass(workload, system, forward_programs.append if ours else None)
        results, forward_s = _timed(forward)
        losses, step_s = [], 0.0
        if steps:
            step = training_step(workload, system, step_programs.append if ours else None)
            loss, step_s = _timed(step)
            losses = [loss, *(step() for _ in range(steps - 1))]
    arrays = [tensor.numpy() for tensor in tensors_of(results)]
    messages = [str(one.message) for one in caught if issubclass(one.category, EqsatWarning)]
    kernels = [_profile(programs) for programs in (forward_programs, step_programs)]
    return FirstCalls(arrays, losses, forward_s, step_s, messages, *kernels)


def _profile(programs: Sequence[Any]) -> list[KernelReport]:
    return [report for program in programs for report in program.profile(**program.random_inputs(), repeats=5)]


def in_new_process(workload: Workload, system: str, steps: int) -> FirstCalls:
    """The first calls of a system in a new process.

    Raises:
        SystemFailedError: what the system raised, the signal that ended the process, or that it took too long.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_first_calls, args=(theirs, workload, system, steps))
    process.start()
    theirs.close()
    try:
        answer = ours.recv() if ours.poll(MOST_SECONDS) else f"took more than {MOST_SECONDS} s"
    except EOFError:
        process.join()
        answer = f"the process ended with status {process.exitcode}"
    finally:
        process.kill()
        process.join()
    if isinstance(answer, str):
        raise SystemFailedError(f"{system}: {answer}")
    return FirstCalls(*answer)


def _send_first_calls(pipe: Connection, workload: Workload, system: str, steps: int) -> None:
    try:
        pipe.send(tuple(first_calls(workload, system, steps)))
    except Exception as error:
        pipe.send(failure_text(error))


def failure_text(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


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
