"""A saved program → a program that runs on this machine."""

from __future__ import annotations

from pathlib import Path

from codegen.backends.backend_of import backend_of
from codegen.compile.machine import machine
from eqsat.clock import Clock
from eqsat.compile_model import stages_of
from eqsat.failure.internal_error import public_call
from eqsat.failure.reproducer_calls import of_load
from eqsat.load_compiled import load_compiled
from eqsat.options import Running, check_running, check_threads
from eqsat.runtime import store
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.compiled import Compiled
from eqsat.runtime.program import Program
from eqsat.serving.padding import Padding
from ir.diagnostics import Diagnostic, Kind, fail
from ir.host.cache_folder import writable_cache


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
        Padding(stored.model, stored.serving),
    )


def _load_variant(stored: store.LoadedVariant, running: Running, clock: Clock) -> Compiled:
    """One variant of a file, by its own code, or by code that is made here."""
    backend = backend_of(stored.recipe.target, running.emulate)
    notes: tuple[Diagnostic, ...] = ()
    if isinstance(stored.recipe, Artifact):
        artifact = stored.recipe
        code = backend.load(stored.code, artifact.units, artifact.target.arch)
    else:
        from eqsat.rewrite_recipe import rewrite

        folder, notes = writable_cache()
        artifact = rewrite(stored.recipe, backend)
        code = backend.build(artifact.units, artifact.target.arch, folder)
    return load_compiled(artifact, stored.bound, code, running, clock, stages_of(artifact, stored.bound), notes)


@public_call(of_load)
def unpickled(data: bytes, threads: int) -> Program:
    """The program of a pickle or a deep copy."""
    return load_stored(data, threads)
