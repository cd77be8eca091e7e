"""Tiny graph → artifact: optimized, its plans chosen anew where a compiler or a device reports on its kernels."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from codegen.backends.backend_of import backend_of
from eqsat.clock import Clock
from eqsat.model import BoundModel
from eqsat.options import Options, Running
from eqsat.pipeline import optimize, write
from eqsat.planning.replanning import measuring_for, replan
from eqsat.planning.tuning import fastest_cover
from eqsat.runtime.artifact import Artifact
from ir.target import Target

Make = Callable[[BoundModel, Target, Options, Running, Clock, Path], Artifact]
"""A function that does what `make_artifact` does, in this process or in another one."""


def make_artifact(
    bound: BoundModel,
    target: Target,
    options: Options,
    running: Running,
    clock: Clock,
    folder: Path,
    executor: Executor | None = None,
) -> Artifact:
    """The optimized program. Of the constants, only the names are read. folder: the cache, which keeps measurements.
    executor: runs the measurements of autotuning; None is this process."""
    measured_by, measuring = reporter_of(target, options, running), None
    if options.autotune:
        measuring = measuring_for(target, options, running, clock, folder, measured_by, executor)
    artifact = optimize(bound, target, options, clock, measuring and partial(fastest_cover, measuring=measuring))
    if not measured_by:
        return artifact
    backend = backend_of(target, running.emulate)
    better = replan(artifact, backend, clock, folder, measuring)
    if better.prices != artifact.prices:
        artifact = write(artifact, better.prices, backend)
    return msgspec.structs.replace(artifact, stats=msgspec.structs.replace(artifact.stats, planning=better.diagnostics))


def reporter_of(target: Target, options: Options, running: Running) -> str:
    """The source of corrections to plans: a compiler's report, or the device that autotuning measures; "" if none."""
    backend = backend_of(target, running.emulate)
    return backend.device(target.arch) if options.autotune else backend.reporter()


def build_code(artifact: Artifact, running: Running, folder: Path) -> Any:
    """The machine code of an artifact (`ir.module.executable.Code`), from the cache in `folder` or compiled."""
    return backend_of(artifact.target, running.emulate).build(artifact.units, artifact.target.arch, folder)
