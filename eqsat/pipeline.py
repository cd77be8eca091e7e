"""The whole path, on one screen: a bound model → e-graph → cover → module → kernels → library → a program that runs.

This file and `eqsat.api` are the only ones that see both the optimizer and the code generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from codegen.backends.backend import Backend, Code, Lowered
from codegen.backends.backend_of import backend_of
from codegen.backends.timing import times_of
from codegen.compile.calibration import calibrated
from codegen.compile.machine import machine, restricted
from codegen.run.device import find_device
from codegen.where.region_facts import region_facts
from eqsat.assembly.assemble import assemble
from eqsat.assembly.fold import folded
from eqsat.clock import Clock, Progress
from eqsat.collector import uncollected
from eqsat.cost.pricing import PlanPricer
from eqsat.cost.roofline import unfused_ns
from eqsat.cost.targets import GPUS, cpu_target, device_target, gpu_target, nominal_cpu
from eqsat.egraph.saturate import saturate
from eqsat.extraction.extract import extract
from eqsat.extraction.kernel_term import kernel_term
from eqsat.failure.internal_error import reported
from eqsat.failure.reproducer_calls import of_compile
from eqsat.model import BoundModel
from eqsat.options import ON_TARGET, Options, Running, checked_running, checked_threads, usable
from eqsat.planning.plan_cache import PlanCache
from eqsat.planning.refinement import refined
from eqsat.planning.tuning import tuned
from eqsat.runtime import artifact, store
from eqsat.runtime.artifact import Artifact, Recipe, sealed
from eqsat.runtime.call_memory import memory_of_a_call
from eqsat.runtime.compiled import Compiled, report_of
from eqsat.runtime.dump import Stages
from eqsat.runtime.program import Program
from eqsat.runtime.stats import Stats
from eqsat.runtime.verify import random_inputs
from ir.cache_folder import writable_cache
from ir.diagnostics import Diagnostic, EqsatError, Kind, fail
from ir.dtype import TensorType
from ir.kernel_resources import KernelResources
from ir.launch import UNBOUND, LaunchTable
from ir.module import Module
from ir.plan import Plan
from ir.pricer import Price
from ir.region import Region
from ir.rule import Exactness
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
        path = folder / "programs" / f"{artifact.key_of(bound, target, options, measured)}.json"
        found, unusable = artifact.recall(path, bound, make)
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
        table, units, texts = _written(module, prices, backend, options)
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
        return times_of(region, plans, arrays, backend=backend, target=target, flush=_flushes(options), cache=folder)

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
        table, units, texts = _written(found.module, better.prices, backend, options)
        texts_anew = {"table": table, "units": units, "kernels": texts, "contract": UNBOUND}
        found = sealed(msgspec.structs.replace(found, prices=better.prices, **texts_anew))
    return msgspec.structs.replace(found, stats=stats)


def pricer_for(target: Target, options: Options) -> PlanPricer:
    """What kernels cost on a target."""
    planner = partial(backend_of(target).candidates, exactness=options.exactness, tf32=options.tf32)
    return PlanPricer(target, region_facts, planner, options.cost_model, ordered=_is_ordered(options))


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


def _written(
    module: Module, prices: tuple[Price, ...], backend: Backend, options: Options
) -> tuple[LaunchTable, dict[str, str], dict[str, str]]:
    """The launches of a module, the texts to compile, and those of its kernels."""
    lowered = lower_module(module, prices, backend)
    table = backend.launches(module, lowered)
    return table, backend.units(lowered.values(), table, _flushes(options)), backend.texts(lowered.values())


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
    constants = folded(module, bound.constants, ordered=_is_ordered(found.options))
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


def _flushes(options: Options) -> bool:
    """Whether denormals may count as 0."""
    return options.exactness > Exactness.EXACT


def _is_ordered(options: Options) -> bool:
    """Whether floating-point sums keep the order of their terms."""
    return options.exactness < Exactness.REASSOCIATE


def load_stored(source: Path | bytes, threads: int | None, emulate: bool = False, recompile: bool = False) -> Program:
    """A saved program, on a machine that has the instruction sets it was compiled for; one that was emulated when it
    was saved, or is to be, from its text. `recompile`: no text and no machine code is taken from the file."""
    clock = Clock()
    with clock.stage("load"):
        stored = store.read(source, only_recipes=recompile)
        missing = [each for each in stored.features if each not in machine().features and not recompile]
        if missing:
            fail(
                Kind.UNKNOWN_TARGET,
                "load",
                f"the program uses {', '.join(missing)}, which this machine lacks",
                at=str(source) if isinstance(source, Path) else None,
                hint="compile the model here",
            )
        target = next(iter(stored.variants.values())).recipe.target
        running = checked_running(stored.running.emulate or emulate, stored.running.graph, target)
        variants = {key: _loaded(each, running, clock) for key, each in stored.variants.items()}
    return Program(
        stored.model,
        lambda sizes: stored.model.bind(sizes, strict=True),
        checked_threads(threads, target.units),
        variants,
        stored.free,
    )


def _loaded(found: store.LoadedVariant, running: Running, clock: Clock) -> Compiled:
    """One variant of a file, by its own code, or by code that is made here."""
    backend = backend_of(found.recipe.target, running.emulate)
    notes: Notes = ()
    if isinstance(found.recipe, Artifact):
        made = found.recipe
        code = backend.load(found.code, made.units, made.target.arch)
    else:
        folder, notes = writable_cache()
        made = written_again(found.recipe, backend)
        code = backend.build(made.units, made.target.arch, folder)
    return load_compiled(made, found.bound, code, running, clock, notes)


def written_again(recipe: Recipe, backend: Backend) -> Artifact:
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
    table, units, texts = _written(recipe.module, prices, backend, recipe.options)
    known = {name: getattr(recipe, name) for name in Recipe.__struct_fields__}
    return sealed(Artifact(**{**known, "prices": prices}, table=table, units=units, kernels=texts))


def _same_plan(region: Region, wanted: Plan, pricer: PlanPricer) -> Price:
    """The region's own plan that is the wanted one, notes aside."""
    for price in pricer.ranked(region):
        if msgspec.structs.replace(price.plan, notes=wanted.notes) == wanted:
            return price
    message = "the plan in the file is none that the planner makes for the region"
    fail(Kind.MALFORMED_GRAPH, "load", message, at=region.name)


def find_target(wanted: str | Target) -> Target:
    """The target by name; "auto" is this machine's GPU, or its CPU where it has none that kernels are written for."""
    if isinstance(wanted, str) and wanted.lower().replace("_", "") in GPUS:
        wanted = gpu_target(wanted)
    if isinstance(wanted, Target):
        if not wanted.is_gpu:
            restricted(machine(), wanted.arch)
        return wanted
    if not isinstance(wanted, str) or wanted not in ("auto", "cpu", "calibrated"):
        hint = f"auto, cpu, calibrated, {', '.join(GPUS)}, or a Target"
        fail(Kind.UNKNOWN_TARGET, "target", f"there is no target {wanted!r}", hint=hint)
    if wanted == "auto":
        device = find_device()
        found = device and device_target(device.name, device.arch, device.units)
        if found:
            return found
    if wanted == "calibrated":
        return calibrated_target()
    here = machine()
    sizes = {"l1_bytes": here.l1_bytes, "l2_bytes": here.l2_bytes, "l3_bytes": here.l3_bytes}
    return nominal_cpu(arch=here.arch, cores=here.cores, lanes=here.lanes, source=f"{here.cpu}, nominal", **sizes)


def calibrated_target(*, again: bool = False) -> Target:
    """This machine's CPU with figures that were measured on it: those that `eqsat doctor` or an earlier call kept, else
    (or `again`) measured now, in a few seconds. Another measurement is another target, and may give another cover.

    Raises:
        EqsatError: NoCompiler where there is none.
    """
    found = calibrated(again=again)
    here, memory = found.machine, found.memory
    cycle = found.cycle_ns
    return cpu_target(
        name="cpu calibrated",
        arch=here.arch,
        cores=here.cores,
        lanes=here.lanes,
        clock_hz=1e9 / cycle,
        bandwidth=memory.memory,
        cache_bandwidth=memory.l3,
        l2_bandwidth=memory.l2,
        unit_bandwidth=memory.alone,
        launch_ns=memory.call_ns + memory.fork_ns,
        call_ns=memory.call_ns,
        l1_bytes=here.l1_bytes,
        l2_bytes=here.l2_bytes,
        l3_bytes=here.l3_bytes,
        weights=found.weights,
        vector_cycles=memory.vector_ns / cycle,
        lane_cycles=memory.lane_ns / cycle,
        far_cycles=memory.far_ns / cycle,
        source=f"{here.cpu}, measured, {found.compiler}",
    )
