"""The whole path, on one screen: a bound model → e-graph → cover → module → kernels → library → a program that runs.

This file and `eqsat.api` are the only ones that see both the optimizer and the code generator.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from codegen.compile.cache import writable_cache
from codegen.compile.calibration import calibrated
from codegen.compile.library import Library, build, load_library
from codegen.compile.machine import machine, restricted
from codegen.lower.lower import Lowered, lower
from codegen.plan.candidates import candidates
from codegen.run.executable import Executable
from codegen.text.program_to_c import c_units, kernel_texts, launch_table
from codegen.where.region_facts import region_facts
from eqsat.assembly.assemble import assemble
from eqsat.assembly.fold import folded
from eqsat.clock import Clock, Progress
from eqsat.collector import uncollected
from eqsat.cost.pricing import PlanPricer
from eqsat.cost.roofline import unfused_ns
from eqsat.cost.targets import cpu_target, gpu_target, nominal_cpu
from eqsat.egraph.saturate import saturate
from eqsat.extraction.extract import extract
from eqsat.extraction.kernel_term import kernel_term
from eqsat.model import BoundModel
from eqsat.options import Options, checked_threads
from eqsat.runtime import artifact, store
from eqsat.runtime.artifact import Artifact
from eqsat.runtime.compiled import Compiled, report_of
from eqsat.runtime.dump import Stages
from eqsat.runtime.program import Program
from eqsat.runtime.stats import Stats
from ir.diagnostics import Diagnostic, Kind, fail
from ir.module import Module
from ir.pricer import Price
from ir.rule import Exactness
from ir.target import Target
from rules import select

Notes = tuple[Diagnostic, ...]


def compile_model(
    bound: BoundModel, target: Target, options: Options, cache: bool, progress: Progress | None
) -> Compiled:
    """Optimize the model, or take what an earlier run made of it, and load its kernels."""
    clock = Clock(progress)
    folder, notes = writable_cache()
    make = partial(optimize, bound, target, options, clock)
    if cache:
        path = folder / "programs" / f"{artifact.key_of(bound, target, options)}.json"
        found, unusable = artifact.recall(path, make)
        notes += unusable
    else:
        found = make()
    with clock.stage("compile"):
        library = build(found.units, restricted(machine(), target.arch), cache=folder)
    with clock.stage("load"):
        return load_compiled(found, bound, library, clock, notes)


@uncollected()
def optimize(bound: BoundModel, target: Target, options: Options, clock: Clock) -> Artifact:
    """Tiny graph → e-graph → cover → module → kernels' text."""
    graph, constants = bound.graph, sorted(bound.constants)
    with clock.stage("saturate"):
        view, saturation = saturate(
            graph, select(options.rules), options.exactness, options.budget, constants=constants
        )
    with clock.stage("extract"):
        pricer = pricer_for(target, options)
        cover = extract(view, graph.outputs, pricer, constants=constants, extractor=options.extractor)
        module, prices = assemble(cover, view, graph, constants)
    with clock.stage("lower"):
        lowered = lower_module(module, prices)
        table = launch_table(module, lowered)
        units = c_units(lowered.values(), table, flush=options.exactness > Exactness.EXACT)
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
    texts = kernel_texts(lowered.values())
    running = [kernel for kernel in cover.kernels if kernel.price]
    return Artifact(
        target=target,
        options=options,
        tiny=graph.to_json(),
        module=module,
        prices=prices,
        selections=tuple(kernel.selection for kernel in running),
        terms=tuple(kernel_term(kernel.tree, cover.names) for kernel in running),
        table=table,
        units=units,
        kernels=texts,
        stats=stats,
    )


def pricer_for(target: Target, options: Options) -> PlanPricer:
    """What kernels cost on a target."""
    planner = partial(candidates, ordered=_is_ordered(options))
    return PlanPricer(target, region_facts, planner, options.cost_model)


def lower_module(module: Module, prices: tuple[Price, ...]) -> dict[str, Lowered]:
    """The kernel of every region that runs, by the region's name."""
    lowered: dict[str, Lowered] = {}
    for call, price in zip(module.running, prices, strict=True):
        region = call.region
        if region.name not in lowered:
            core = region_facts(region).checked
            lowered[region.name] = lower(region, core, price.plan, f"eq_{region.name}")
    return lowered


def load_compiled(found: Artifact, bound: BoundModel, library: Library, clock: Clock, notes: Notes = ()) -> Compiled:
    """A program in memory: constants folded and packed, kernels bound to their library."""
    module = found.module
    constants = folded(module, bound.constants, ordered=_is_ordered(found.options))
    executable = Executable(module, found.table, library, constants, found.target.units)
    functions = [launch.function for launch in found.table.launches]
    return Compiled(
        bound=bound,
        artifact=found,
        kernels=tuple(map(report_of, module.running, found.prices, found.selections, functions)),
        seconds=dict(clock.seconds),
        notes=(*bound.notes, *notes, *found.stats.saturation.warnings, *found.stats.extraction, *library.diagnostics),
        executable=executable,
        library=library,
        features=restricted(machine(), found.target.arch).features,
        stages=Stages(found, bound, lambda: lower_module(module, found.prices), region_facts),
    )


def _is_ordered(options: Options) -> bool:
    """Whether floating-point sums keep the order of their terms."""
    return options.exactness < Exactness.REASSOCIATE


def load_stored(source: Path | bytes, threads: int | None) -> Program:
    """A saved program, on a machine that has the instruction sets it was compiled for."""
    clock = Clock()
    with clock.stage("load"):
        stored = store.read(source)
        missing = [each for each in stored.features if each not in machine().features]
        if missing:
            fail(
                Kind.UNKNOWN_TARGET,
                "load",
                f"the program uses {', '.join(missing)}, which this machine lacks",
                at=str(source) if isinstance(source, Path) else None,
                hint="compile the model here",
            )
        variants = {
            key: load_compiled(each.artifact, each.bound, load_library(each.code), clock)
            for key, each in stored.variants.items()
        }
    units = next(iter(stored.variants.values())).artifact.target.units
    return Program(
        stored.model,
        lambda sizes: stored.model.bind(sizes, strict=True),
        checked_threads(threads, units),
        variants,
        stored.free,
    )


def find_target(wanted: str | Target) -> Target:
    """The target by name; "auto" is this machine's CPU."""
    if isinstance(wanted, str) and wanted.startswith("sm"):
        wanted = gpu_target(wanted)
    if isinstance(wanted, Target):
        if wanted.is_gpu:
            fail(Kind.NO_DEVICE, "target", f"this version writes no kernels for {wanted.arch}", hint='"cpu"')
        restricted(machine(), wanted.arch)
        return wanted
    if wanted == "calibrated":
        return calibrated_target()
    if not isinstance(wanted, str) or wanted not in ("auto", "cpu"):
        hint = '"auto", "cpu", "calibrated", or a Target'
        fail(Kind.UNKNOWN_TARGET, "target", f"there is no target {wanted!r}", hint=hint)
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
