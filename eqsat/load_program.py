"""A saved program → a program that runs on this machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from codegen.backends.backend_of import backend_of
from codegen.compile.machine import machine
from eqsat.clock import Clock
from eqsat.compile_model import stages_of
from eqsat.cost.pricing import PlanPricer
from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer_calls import of_load
from eqsat.load_compiled import load_compiled
from eqsat.options import Running, check_running, check_threads
from eqsat.pipeline import write
from eqsat.planning.target_pricer import pricer_for
from eqsat.runtime import store
from eqsat.runtime.artifact import Artifact, Recipe
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.program import Program
from ir.backend import Backend
from ir.diagnostics import Diagnostic, Kind, fail
from ir.host.cache_folder import writable_cache
from ir.plan.plan import Plan
from ir.pricer import Price
from ir.region.region import Region


def load_stored(source: Path | bytes, threads: int | None, emulate: bool = False, recompile: bool = False) -> Program:
    """A saved program, on a machine that has the instruction sets it was compiled for; one that was emulated when it
    was saved, or is to be, from its text. `recompile`: no text and no machine code is taken from the file."""
    clock = Clock()
    with clock.stage("load"):
        stored = store.read(source, only_recipes=recompile)
        missing = [feature for feature in stored.features if feature not in machine().features and not recompile]
        if missing:
            fail(
                Kind.UNKNOWN_TARGET,
                "load",
                f"the program uses {', '.join(missing)}, which this machine lacks",
                at=str(source) if isinstance(source, Path) else None,
                hint="compile the model here",
            )
        target = next(iter(stored.variants.values())).recipe.target
        running = check_running(stored.running.emulate or emulate, stored.running.graph, target)
        variants = {key: _load_variant(variant, running, clock) for key, variant in stored.variants.items()}
    return Program(
        stored.model,
        stored.model.refuse,
        check_threads(threads, target.units),
        variants,
        unpickled,
        stored.free,
        stored.serving,
    )


def _load_variant(stored: store.LoadedVariant, running: Running, clock: Clock) -> Compiled:
    """One variant of a file, by its own code, or by code that is made here."""
    backend = backend_of(stored.recipe.target, running.emulate)
    notes: tuple[Diagnostic, ...] = ()
    if isinstance(stored.recipe, Artifact):
        artifact = stored.recipe
        code = backend.load(stored.code, artifact.units, artifact.target.arch)
    else:
        folder, notes = writable_cache()
        artifact = rewrite(stored.recipe, backend)
        code = backend.build(artifact.units, artifact.target.arch, folder)
    return load_compiled(artifact, stored.bound, code, running, clock, stages_of(artifact, stored.bound), notes)


def rewrite(recipe: Recipe, backend: Backend) -> Artifact:
    """The program of a recipe that is not trusted, its texts written anew.

    A plan counts only as the choice of one that the planner itself makes for the region, which is the plan that is
    lowered; so no plan from a file reaches a template, and no price either.

    Raises:
        EqsatError: MalformedGraph for a plan that its region does not have; what the analyses find wrong with a region.
    """
    pricer = pricer_for(recipe.target, recipe.options)
    prices = tuple(
        _same_plan(call.region, price.plan, pricer)
        for call, price in zip(recipe.module.running, recipe.prices, strict=True)
    )
    return write(recipe, prices, backend)


def _same_plan(region: Region, wanted: Plan, pricer: PlanPricer) -> Price:
    """The region's own plan that is the wanted one, notes aside."""
    for price in pricer.rank(region):
        if msgspec.structs.replace(price.plan, notes=wanted.notes) == wanted:
            return price
    message = "the plan in the file is none that the planner makes for the region"
    fail(Kind.MALFORMED_GRAPH, "load", message, at=region.name)


@public_call(of_load)
def unpickled(data: bytes, threads: int) -> Program:
    """The program of a pickle or a deep copy."""
    return load_stored(data, threads)
