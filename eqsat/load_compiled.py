"""Code → a program in memory."""

from __future__ import annotations

from codegen.backends.backend_of import backend_of
from eqsat.assembly.fold import fold
from eqsat.clock import Clock
from eqsat.model import BoundModel
from eqsat.options import Running
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.call_memory import memory_of_a_call
from eqsat.runtime.compiled import Compiled, report_of
from eqsat.runtime.dump import Stages
from ir.diagnostics import Diagnostic, Kind, fail
from ir.module.executable import Code


def load_compiled(
    artifact: Artifact,
    bound: BoundModel,
    code: Code,
    running: Running,
    clock: Clock,
    stages: Stages,
    notes: tuple[Diagnostic, ...] = (),
) -> Compiled:
    """The program of an artifact: its constants folded and packed, its kernels bound to their code.

    Raises:
        EqsatError: MalformedGraph for the code of another program.
    """
    module, table, target = artifact.module, artifact.table, artifact.target
    notes = (*notes, *(() if target.is_gpu and not running.emulate else memory_of_a_call(bound, module)))
    backend = backend_of(target, running.emulate)
    if backend.contract(code) not in (None, artifact.contract):
        fail(Kind.MALFORMED_GRAPH, "load", "the machine code was written for other launches or buffers")
    constants = fold(module, bound.constants, ordered=artifact.options.ordered)
    resources = [code.resources.get(launch.function) for launch in table.launches]
    return Compiled(
        bound=bound,
        artifact=artifact,
        kernels=tuple(
            map(report_of, module.running, artifact.prices, artifact.selections, table.launches, resources, module.runs)
        ),
        seconds=dict(clock.seconds),
        notes=(*bound.notes, *notes, *artifact.stats.diagnostics, *code.diagnostics),
        executable=backend.executable(module, table, code, constants, target.units, running.graph),
        code=code,
        running=running,
        features=backend.features(target.arch),
        stages=stages,
    )
