"""The systems take turns in running a model, as in `bench.turns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.facts import load
from bench.torch_models.first_calls import SystemFailedError, in_new_process
from bench.torch_models.systems import (
    EQSAT,
    FROZEN,
    LOSS_TOLERANCE,
    ONNXRUNTIME,
    RESULT_TOLERANCE,
    RUN_MODELS,
    TRAIN_MODELS,
    Workload,
    forward_pass,
    tensors_of,
    training_step,
)
from bench.turns import Case, Runner, Times, measure

SAMPLE_SECONDS = 0.2
"""A sample of one run would be of a model whose parameters other systems have just pushed out of the caches."""


def forward_case(workload: Workload, systems: Sequence[str]) -> Case:
    """The forward pass as a case of `bench.turns`."""

    def build(system: str, _: int) -> Runner:
        run = forward_pass(workload, system)
        return lambda: tensors_of(run())[0].numpy()

    return Case(workload.name, RESULT_TOLERANCE, {name: partial(build, name) for name in systems}, SAMPLE_SECONDS)


def step_case(workload: Workload, systems: Sequence[str]) -> Case:
    """The training step as a case of `bench.turns`."""

    def build(system: str, _: int) -> Runner:
        return training_step(workload, system)

    return Case(workload.name, LOSS_TOLERANCE, {name: partial(build, name) for name in systems}, SAMPLE_SECONDS)


def times(workload: Workload, rounds: int, absent: Sequence[str]) -> dict[str, Any]:
    """Median milliseconds of a forward pass and of a training step, and how many times as fast as the best other system
    eqsat is, as it is or frozen. absent: the systems that cannot run the model."""
    row: dict[str, Any] = {"load": load()}
    systems, obstacle = _systems_for_forward(workload)
    systems = [system for system in systems if system.removesuffix(FROZEN) not in absent]
    if obstacle:
        row[f"no {ONNXRUNTIME}"] = obstacle
    times = {"forward": measure(partial(forward_case, workload, systems), workload.threads, rounds)}
    if workload.family.loss:
        trainers = [system for system in TRAIN_MODELS if system not in absent]
        times["step"] = measure(partial(step_case, workload, trainers), workload.threads, rounds)
    for kind, taken in times.items():
        row[f"{kind} ms"] = {system: round(time.median * 1e3, 3) for system, time in taken.items()}
        row[f"{kind} times as fast"] = round(_best(taken, ours=False) / _best(taken, ours=True), 2)
    return row


def _best(taken: Mapping[str, Times], *, ours: bool) -> float:
    return min(time.median for system, time in taken.items() if (system.removesuffix(FROZEN) == EQSAT) is ours)


def _systems_for_forward(workload: Workload) -> tuple[Sequence[str], str]:
    """The systems, and why onnxruntime is not among them, if so."""
    try:
        in_new_process(workload, ONNXRUNTIME, 0)
    except SystemFailedError as failure:
        return [system for system in RUN_MODELS if system != ONNXRUNTIME], str(failure)
    return RUN_MODELS, ""
