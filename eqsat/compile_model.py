"""Tiny graph → program: the artifact of the path, or the one that the cache keeps, then its code."""

from __future__ import annotations

import msgspec

from codegen.backends.backend_of import backend_of
from codegen.plan.poly_core_to_report import poly_report
from codegen.poly.analyse import analyse
from eqsat.clock import Clock, Progress
from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer_calls import of_compile
from eqsat.load_compiled import load_compiled
from eqsat.model import BoundModel
from eqsat.options import ON_TARGET, Options, Running, usable
from eqsat.pipeline import lower_module, optimize, write
from eqsat.planning.replanning import replan
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.artifact_cache import key_of, recall
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.dump import Stages
from ir.host.cache_folder import writable_cache
from ir.target import Target


@public_call(of_compile)
def compile_model(
    bound: BoundModel,
    target: Target,
    options: Options,
    cache: bool,
    progress: Progress | None,
    running: Running = ON_TARGET,
) -> Compiled:
    """Tiny graph → artifact, or the artifact that an earlier call kept → code → program."""
    clock = Clock(progress)
    options, notes = usable(options, target)
    folder, warnings = writable_cache()
    backend = backend_of(target, running.emulate)
    measured_by = backend.device(target.arch) if options.autotune else backend.reporter()

    def make() -> Artifact:
        made = optimize(bound, target, options, clock)
        if not measured_by:
            return made
        better = replan(made, backend, clock, folder, measured_by)
        if better.prices != made.prices:
            made = write(made, better.prices, backend)
        return msgspec.structs.replace(made, stats=msgspec.structs.replace(made.stats, planning=better.diagnostics))

    if cache:
        path = folder / "programs" / f"{key_of(bound, target, options, measured_by)}.json"
        made, unusable = recall(path, bound, make)
        warnings += unusable
    else:
        made = make()
    with clock.stage("compile"):
        code = backend.build(made.units, target.arch, folder)
    with clock.stage("load"):
        return load_compiled(made, bound, code, running, clock, stages_of(made, bound), (*notes, *warnings))


def stages_of(made: Artifact, bound: BoundModel) -> Stages:
    """The dumps of a program; those between module and text are made again when somebody asks for them."""
    backend = backend_of(made.target)
    return Stages(made, bound, lambda: lower_module(made.module, made.prices, backend), analyse, poly_report)
