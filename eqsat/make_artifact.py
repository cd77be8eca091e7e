"""Tiny graph → artifact: optimized, its plans chosen anew where a compiler or a device reports on its kernels."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import msgspec

from codegen.backends.backend_of import backend_of
from eqsat.build_code import reporter_of
from eqsat.clock import Clock
from eqsat.model import BoundModel
from eqsat.options import Options, Running
from eqsat.pipeline import optimize, write
from eqsat.planning.replanning import measuring_for, replan
from eqsat.planning.tuning import fastest_cover
from eqsat.runtime.artifact import Artifact
from ir.target import Target


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
