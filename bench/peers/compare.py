"""One case of `bench.peers` in every system that takes part."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.kernels import kernels
from bench.peers.models import models
from bench.peers.systems import (
    KERNEL_SYSTEMS,
    MODEL_SYSTEMS,
    export_kernel,
    module_in_inductor,
    module_in_torch,
    takes_part,
    varying_arrays,
)
from bench.turns import Case, Times, measure


def kernel_case(name: str, folder: Path) -> Case:
    """A kernel in every system that takes part; its file lies in the folder, if torch could export it."""
    kernel = kernels()[name]
    builders: dict[str, Any] = {
        system: partial(build, kernel) for system, build in KERNEL_SYSTEMS.items() if takes_part(system)
    }
    path = folder / "kernel.onnx"
    if path.exists():
        inputs = varying_arrays(kernel)
        builders |= {
            system: partial(build, str(path), inputs)
            for system, build in MODEL_SYSTEMS.items()
            if system not in builders and takes_part(system)
        }
    return Case(name, kernel.tolerance, builders)


def model_case(name: str, folder: Path) -> Case:
    """A model in every system that takes part."""
    model = models()[name]
    path = str(folder / "model.onnx")
    builders: dict[str, Any] = {
        system: partial(build, path, model.inputs) for system, build in MODEL_SYSTEMS.items() if takes_part(system)
    }
    if model.build and takes_part("torch"):
        builders["torch"] = partial(module_in_torch, model.build, model.inputs)
        builders["inductor"] = partial(module_in_inductor, model.build, model.inputs)
    return Case(name, model.tolerance, builders)


def compare(name: str, threads: int, rounds: int, of_cpu: bool) -> tuple[dict[str, Times], dict[str, str]]:
    """The times of a case by system, and why other systems have none. of_cpu: CPU seconds."""
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        if name in kernels():
            try:
                with _quiet():
                    export_kernel(kernels()[name], folder / "kernel.onnx")
            except Exception as error:  # an exporter may fail in any way
                absent["ONNX"] = type(error).__name__
            case = partial(kernel_case, name, folder)
        else:
            with _quiet():
                models()[name].write(folder / "model.onnx")
            case = partial(model_case, name, folder)
        times = measure(case, threads, rounds, absent.__setitem__, of_cpu)
    return times, absent


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings and the progress of torch's exporter."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
