"""The plans of a program once more: by measurement where the options ask for it, else by what a compiler reports."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from codegen.backends.backend_of import backend_of
from codegen.backends.time_plans import times_of
from codegen.poly.analyse import checked_core
from eqsat.clock import Clock
from eqsat.options import Options, Running
from eqsat.planning.plan_cache import PlanCache
from eqsat.planning.refinement import Replanned, refine
from eqsat.planning.target_pricer import pricer_for
from eqsat.planning.tuning import Measuring, tune
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.verify import random_inputs
from ir.backend import Backend, function_name
from ir.diagnostics import EqsatError
from ir.dtype import TensorType
from ir.host.cache_folder import writable_cache
from ir.kernel.resources import KernelResources
from ir.plan.plan import Plan
from ir.region.region import Region
from ir.target import Target


def measuring_for(
    target: Target,
    options: Options,
    running: Running,
    clock: Clock,
    folder: Path,
    measured_by: str,
    executor: Executor | None,
) -> Measuring:
    """How autotuning measures for a target. The seconds of `options.autotune` begin now."""
    known = PlanCache(folder, target, measured_by, [str(options.exactness), *(["tf32"] if options.tf32 else [])])
    timer = partial(time_plans, target=target, flush=options.flushes, emulate=running.emulate)
    end = math.inf if options.autotune is True else time.monotonic() + options.autotune
    return Measuring(pricer_for(target, options), timer, known, clock.tell, executor, end)


def time_plans(
    region: Region, plans: Sequence[Plan], *, target: Target, flush: bool, emulate: bool = False
) -> list[float | EqsatError]:
    """The ns of each plan on random data, or why there are none. This process may be a worker of an executor."""
    core, memrefs = checked_core(region), {buffer.name: buffer.memref for buffer in region.inputs}
    arrays = random_inputs({name: TensorType.of(memref.dtype, memref.shape) for name, memref in memrefs.items()})
    backend, (folder, _) = backend_of(target, emulate), writable_cache()
    return times_of(region, core, plans, arrays, backend=backend, target=target, flush=flush, cache=folder)


def replan(artifact: Artifact, backend: Backend, clock: Clock, folder: Path, measuring: Measuring | None) -> Replanned:
    """The prices of a program's calls. A call gets another plan than the estimate's first where a measurement or the
    compiler's report says that the other plan is better. `folder` keeps compiled kernels."""
    target, options = artifact.target, artifact.options
    if measuring is not None:
        with clock.stage("tune"):
            return tune(artifact.module, artifact.prices, measuring)
    pricer = pricer_for(target, options)

    def compile_plan(region: Region, plan: Plan) -> KernelResources:
        kernel = backend.lower(region, checked_core(region), plan, function_name(region))
        return backend.build(backend.texts([kernel]), target.arch, folder).resources[function_name(region)]

    with clock.stage("compile"):
        resources = backend.build(artifact.units, target.arch, folder).resources
        reports = {call.region.name: resources[function_name(call.region)] for call in artifact.module.running}
        return refine(artifact.module, artifact.prices, reports, pricer, target, compile_plan)
