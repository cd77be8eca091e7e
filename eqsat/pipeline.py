"""The whole path, on one screen: a bound model → e-graph → cover → module → kernels → library → a program that runs.

This file sees both the optimizer and the code generator, as do those that begin a path: `eqsat.api`,
`eqsat.find_target`, `eqsat.load_program` and `eqsat.planning.target_pricer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from codegen.backends.backend import Backend, Lowered
from codegen.backends.backend_of import backend_of
from codegen.backends.timing import times_of
from codegen.poly.region_facts import region_facts
from eqsat.assembly.assemble import assemble
from eqsat.assembly.fold import folded
from eqsat.clock import Clock, Progress
from eqsat.collector import uncollected
from eqsat.cost.roofline import unfused_ns
from eqsat.egraph.saturate import saturate
from eqsat.extraction.extract import extract
from eqsat.extraction.kernel_term import kernel_term
from eqsat.failure.internal_error import reported
from eqsat.failure.reproducer_calls import of_compile
from eqsat.model import BoundModel
from eqsat.options import ON_TARGET, Options, Running, usable
from eqsat.planning.plan_cache import PlanCache
from eqsat.planning.refinement import refined
from eqsat.planning.target_pricer import pricer_for
from eqsat.planning.tuning import tuned
from eqsat.runtime.artifact import Artifact, sealed
from eqsat.runtime.artifact_cache import key_of, recall
from eqsat.runtime.call_memory import memory_of_a_call
from eqsat.runtime.compiled import Compiled, report_of
from eqsat.runtime.dump import Stages
from eqsat.runtime.stats import Stats
from eqsat.runtime.verify import random_inputs
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.dtype import TensorType
from ir.host.cache_folder import writable_cache
from ir.kernel.resources import KernelResources
from ir.module.executable import Code
from ir.module.launch import UNBOUND, LaunchTable
from ir.module.module import Module
from ir.plan.plan import Plan
from ir.pricer import Price
from ir.region.region import Region
from ir.target import Target
from rules import select

Notes = tuple[Diagnostic, ...]


@reported(of_compile)
def compile_model(
    bound: BoundModel,
    target: Target,
    options: Options,
    cache: bool,
    progress: Progress | None,
    running: Running = ON_TARGET,
) -> Compiled:
    """Optimize the model, or take what an earlier run made of it, and load its kernels."""
    clock = Clock(progress)
    options, told = usable(options, target)
    folder, notes = writable_cache()
    notes = (*told, *notes)
    backend = backend_of(target, running.emulate)
    measured = backend.device(target.arch) if options.autotune else backend.reporter()

    def make() -> Artifact:
        found = optimize(bound, target, options, clock)
        return replanned(found, backend, clock, folder, measured) if measured else found

    if cache:
        path = folder / "programs" / f"{key_of(bound, target, options, measured)}.json"
        found, unusable = recall(path, bound, make)
        notes += unusable
    else:
        found = make()
    with clock.stage("compile"):
        code = backend.build(found.units, target.arch, folder)
    with clock.stage("load"):
        return load_compiled(found, bound, code, running, clock, notes)


@uncollected()
def optimize(bound: BoundModel, target: Target, options: Options, clock: Clock) -> Artifact:
    """Tiny graph → e-graph → cover → module → kernels' text."""
    graph, constants, backend = bound.graph, sorted(bound.constants), backend_of(target)
    with clock.stage("saturate"):
        view, saturation = saturate(
            graph, select(options.rules, options.exactness), options.exactness, options.budget, constants=constants
        )
    with clock.stage("extract"):
        pricer = pricer_for(target, options)
        cover = extract(
            view,
            graph.outputs,
            pricer,
            constants=constants,
            extractor=options.extractor,
            joining=options.cost_model.joining,
            relayout=options.cost_model.relayout,
        )
        module, prices = assemble(cover, view, graph, constants)
    with clock.stage("lower"):
        table, units, texts = launches_and_texts(module, prices, backend, options)
    stats = Stats(
        uops=len(graph.nodes),
        kernels_before=sum(node.uop != "INPUT" for node in graph.nodes),
        kernels_after=len(prices),
        candidates=cover.considered,
        estimated_before_ns=unfused_ns(graph, target),
        saturation=saturation,
        seconds=dict(clock.seconds),
        extraction=cover.diagnostics,
    )
    running = [kernel for kernel in cover.kernels if kernel.price]
    made = Artifact(
        target=target,
        options=options,
        tiny=graph.to_json(),
        module=module,
        prices=prices,
        selections=tuple(kernel.selection for kernel in running),
        terms=tuple(kernel_term(kernel.trees, cover.names) for kernel in running),
        table=table,
        units=units,
        kernels=texts,
        stats=stats,
    )
    return sealed(made)


def replanned(found: Artifact, backend: Backend, clock: Clock, folder: Path, device: str) -> Artifact:
    """The program with other plans where these are known to be better than those of the estimate: by measurement on
    `device` where the options ask for it, else by what the compiler reports of the kernels."""
    target, options = found.target, found.options
    pricer = pricer_for(target, options)

    def compiled(region: Region, plan: Plan) -> KernelResources:
        kernel = backend.lower(region, region_facts(region).checked, plan, _function(region))
        return backend.build(backend.texts([kernel]), target.arch, folder).resources[_function(region)]

    def timed(region: Region, plans: Sequence[Plan]) -> list[float | EqsatError]:
        arrays = random_inputs(
            {each.name: TensorType.of(each.memref.dtype, each.memref.shape) for each in region.inputs}
        )
        return times_of(region, plans, arrays, backend=backend, target=target, flush=options.flushes, cache=folder)

    if options.autotune:
        with clock.stage("tune"):
            known = PlanCache(folder, target, device, [str(options.exactness), *(["tf32"] if options.tf32 else [])])
            better = tuned(found.module, found.prices, pricer, timed, known, clock.tell)
    else:
        with clock.stage("compile"):
            code = backend.build(found.units, target.arch, folder)
            regions = {call.region.name: call.region for call in found.module.running}
            reports = {name: code.resources[_function(region)] for name, region in regions.items()}
            better = refined(found.module, found.prices, reports, pricer, target, compiled)
    stats = msgspec.structs.replace(found.stats, planning=better.diagnostics)
    if better.prices != found.prices:
        table, units, texts = launches_and_texts(found.module, better.prices, backend, options)
        texts_anew = {"table": table, "units": units, "kernels": texts, "contract": UNBOUND}
        found = sealed(msgspec.structs.replace(found, prices=better.prices, **texts_anew))
    return msgspec.structs.replace(found, stats=stats)


def lower_module(module: Module, prices: tuple[Price, ...], backend: Backend) -> dict[str, Lowered]:
    """The kernel of every region that runs, by the region's name."""
    lowered: dict[str, Lowered] = {}
    for call, price in zip(module.running, prices, strict=True):
        region = call.region
        if region.name not in lowered:
            core = region_facts(region).checked
            lowered[region.name] = backend.lower(region, core, price.plan, _function(region))
    return lowered


def _function(region: Region) -> str:
    """The name of a region's kernel."""
    return f"eq_{region.name}"


def launches_and_texts(
    module: Module, prices: tuple[Price, ...], backend: Backend, options: Options
) -> tuple[LaunchTable, dict[str, str], dict[str, str]]:
    """The launches of a module, the texts to compile, and those of its kernels."""
    lowered = lower_module(module, prices, backend)
    table = backend.launches(module, lowered)
    return table, backend.units(lowered.values(), table, options.flushes), backend.texts(lowered.values())


def load_compiled(
    found: Artifact, bound: BoundModel, code: Code, running: Running, clock: Clock, notes: Notes = ()
) -> Compiled:
    """A program in memory: constants folded and packed, kernels bound to their code.

    Raises:
        EqsatError: MalformedGraph for the code of another program.
    """
    module, table, target = found.module, found.table, found.target
    notes = (*notes, *(() if target.is_gpu and not running.emulate else memory_of_a_call(bound, module)))
    backend = backend_of(target, running.emulate)
    if backend.contract(code) not in (None, found.contract):
        fail(Kind.MALFORMED_GRAPH, "load", "the machine code was written for other launches or buffers")
    constants = folded(module, bound.constants, ordered=found.options.ordered)
    resources = [code.resources.get(launch.function) for launch in table.launches]
    return Compiled(
        bound=bound,
        artifact=found,
        kernels=tuple(map(report_of, module.running, found.prices, found.selections, table.launches, resources)),
        seconds=dict(clock.seconds),
        notes=(*bound.notes, *notes, *found.stats.diagnostics, *code.diagnostics),
        executable=backend.executable(module, table, code, constants, target.units, running.graph),
        code=code,
        running=running,
        features=backend.features(target.arch),
        stages=Stages(found, bound, lambda: lower_module(module, found.prices, backend), region_facts),
    )
