"""The plans of a program once more: by measurement where the options ask for it, else by what a compiler reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from codegen.backends.time_plans import times_of
from codegen.poly.analyse import checked_core
from eqsat.clock import Clock
from eqsat.planning.plan_cache import PlanCache
from eqsat.planning.refinement import Replanned, refine
from eqsat.planning.target_pricer import pricer_for
from eqsat.planning.tuning import tune
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.verify import random_inputs
from ir.backend import Backend, function_name
from ir.diagnostics import EqsatError
from ir.dtype import TensorType
from ir.kernel.resources import KernelResources
from ir.plan.plan import Plan
from ir.region.region import Region


def replan(made: Artifact, backend: Backend, clock: Clock, folder: Path, measured_by: str) -> Replanned:
    """The prices of a program's calls, by other plans where those are known to be better than the estimate's first.
    `measured_by` is the device or the compiler; `folder` keeps measured plans and compiled kernels."""
    target, options = made.target, made.options
    pricer = pricer_for(target, options)

    def compile_plan(region: Region, plan: Plan) -> KernelResources:
        kernel = backend.lower(region, checked_core(region), plan, function_name(region))
        return backend.build(backend.texts([kernel]), target.arch, folder).resources[function_name(region)]

    def time_plans(region: Region, plans: Sequence[Plan]) -> list[float | EqsatError]:
        core, memrefs = checked_core(region), {each.name: each.memref for each in region.inputs}
        arrays = random_inputs({name: TensorType.of(each.dtype, each.shape) for name, each in memrefs.items()})
        return times_of(
            region, core, plans, arrays, backend=backend, target=target, flush=options.flushes, cache=folder
        )

    if options.autotune:
        with clock.stage("tune"):
            known = PlanCache(
                folder, target, measured_by, [str(options.exactness), *(["tf32"] if options.tf32 else [])]
            )
            return tune(made.module, made.prices, pricer, time_plans, known, clock.tell)
    with clock.stage("compile"):
        resources = backend.build(made.units, target.arch, folder).resources
        reports = {call.region.name: resources[function_name(call.region)] for call in made.module.running}
        return refine(made.module, made.prices, reports, pricer, target, compile_plan)
