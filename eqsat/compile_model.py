"""Tiny graph → program: the artifact of the path, or the one that the cache keeps, then its code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codegen.backends.backend_of import backend_of
from codegen.plan.poly_core_to_report import poly_report
from codegen.poly.analyse import analyse
from eqsat.build_code import build_code, reporter_of
from eqsat.clock import Clock, Progress
from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer_calls import of_compile
from eqsat.load_compiled import load_compiled
from eqsat.model import BoundModel
from eqsat.options import Options, Running, usable
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.artifact_cache import key_of, recall
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.dump import Stages
from ir.backend import Lowered
from ir.grammar import with_count
from ir.host.cache_folder import writable_cache
from ir.target import Target

Make = Callable[[BoundModel, Target, Options, Running, Clock, Path], Artifact]
"""A function that does what `eqsat.make_artifact.make_artifact` does, in this process or in another one."""


@public_call(of_compile)
def compile_model(
    bound: BoundModel,
    target: Target,
    options: Options,
    cache: bool,
    progress: Progress | None,
    running: Running,
    make: Make,
) -> Compiled:
    """Tiny graph → artifact, or the artifact that an earlier call kept → code → program."""
    clock = Clock(progress)
    options, notes = usable(options, target)
    folder, warnings = writable_cache()

    def fresh() -> Artifact:
        return make(bound, target, options, running, clock, folder)

    if cache and not options.cost_model.own:  # the text of a caller's functions is not known
        key = key_of(bound, target, options, reporter_of(target, options, running))
        artifact, unusable = recall(folder / "programs" / f"{key}.json", bound, fresh)
        warnings += unusable
    else:
        artifact = fresh()
    with clock.stage("compile"):
        clock.count(with_count(len(artifact.kernels), "function"))
        code = build_code(artifact, running, folder)
    with clock.stage("load"):
        return load_compiled(artifact, bound, code, running, clock, stages_of(artifact, bound), (*notes, *warnings))


def stages_of(artifact: Artifact, bound: BoundModel) -> Stages:
    """The dumps of a program. Dumps of stages between module and text are made again when somebody asks for them."""

    def lower() -> dict[str, Lowered]:
        from eqsat.pipeline import lower_module

        return lower_module(artifact.module, artifact.prices, backend_of(artifact.target))

    return Stages(artifact, bound, lower, analyse, poly_report)
