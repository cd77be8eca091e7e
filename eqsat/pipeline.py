"""The whole path, on one screen: a bound model → e-graph → cover → module → kernels → library → a program that runs.

This file and `eqsat.api` are the only ones that see both the optimizer and the code generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from codegen.executable import Executable
from codegen.library import Library, build, cache_dir, load_library
from codegen.lower import Lowered, lower
from codegen.machine import machine
from codegen.peaks import measure_peaks
from codegen.plans import plans
from codegen.program_to_c import c_units, kernel_texts, launch_table
from codegen.region_facts import region_facts
from codegen.toolchain import find_compiler
from eqsat import artifact, store
from eqsat.artifact import Artifact
from eqsat.assemble import assemble
from eqsat.clock import Clock, Progress
from eqsat.compiled import Compiled, KernelReport
from eqsat.cost import lower_bound_ns
from eqsat.dump import Stages
from eqsat.extract import extract
from eqsat.model import BoundModel, TinyModel
from eqsat.options import Options
from eqsat.pricing import PlanPricer
from eqsat.program import Program
from eqsat.saturate import saturate
from eqsat.stats import Stats
from eqsat.targets import cpu_target
from ir.diagnostics import Kind, fail
from ir.module import Call, Module
from ir.pricer import Price
from ir.region_playback import play_region
from ir.rule import Exactness
from ir.target import Target
from ir.tiny import Graph
from ir.tiny_bind import load as load_tiny
from ir.tiny_parse import parse
from ir.uop import total_flops
from rules import select

NOMINAL_CLOCK_HZ = 3.0e9
"""A figure that no measurement moves: the same program gets the same cover on every run."""


def compile_model(
    bound: BoundModel, target: Target, options: Options, cache: bool, progress: Progress | None
) -> Compiled:
    """Optimize the model, or take what an earlier run made of it, and load its kernels."""
    clock = Clock(progress)
    path = cache_dir() / "programs" / f"{artifact.key_of(bound, target, options)}.json"
    found = artifact.read(path) if cache else None
    if found is None:
        found = optimize(bound, target, options, clock)
        if cache:
            artifact.write(found, path)
    with clock.stage("compile"):
        library = build(found.units, machine())
    with clock.stage("load"):
        return load_compiled(found, bound, library, clock)


def optimize(bound: BoundModel, target: Target, options: Options, clock: Clock) -> Artifact:
    """Tiny graph → e-graph → cover → module → kernels' text."""
    graph, constants = bound.graph, sorted(bound.constants)
    with clock.stage("saturate"):
        view, saturation = saturate(graph, select(options.rules), options.exactness, options.budget)
    with clock.stage("extract"):
        pricer = PlanPricer(target, region_facts, plans)
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
    )
    texts = kernel_texts(lowered.values())
    return Artifact(target, options, graph.to_json(), module, prices, table, units, texts, stats, bound.notes)


def lower_module(module: Module, prices: tuple[Price, ...]) -> dict[str, Lowered]:
    """The kernel of every region that runs, by the region's name."""
    lowered: dict[str, Lowered] = {}
    for call, price in zip((call for call in module.calls if call.when == "run"), prices, strict=True):
        region = call.region
        if region.name not in lowered:
            core = region_facts(region).core
            lowered[region.name] = lower(region, core, price.plan, f"eq_{region.name}")
    return lowered


def load_compiled(found: Artifact, bound: BoundModel, library: Library, clock: Clock) -> Compiled:
    """A program in memory: constants folded and packed, kernels bound to their library."""
    module = found.module
    constants = folded(module, bound.constants)
    executable = Executable(module, found.table, library, constants, found.target.units)
    running = [call for call in module.calls if call.when == "run"]
    return Compiled(
        bound=bound,
        artifact=found,
        kernels=tuple(map(_report, running, found.prices, (launch.function for launch in found.table.launches))),
        seconds=dict(clock.seconds),
        notes=(*found.notes, *library.diagnostics),
        executable=executable,
        library=library,
        features=machine().features,
        stages=Stages(found, bound, lambda: lower_module(module, found.prices), region_facts),
    )


def load_stored(path: Path, threads: int | None) -> Program:
    """A saved program, on a machine that has the instruction sets it was compiled for."""
    clock = Clock()
    with clock.stage("load"):
        stored = store.read(path)
        missing = [each for each in stored.features if each not in machine().features]
        if missing:
            fail(
                Kind.UNKNOWN_TARGET,
                "load",
                f"the program uses {', '.join(missing)}, which this machine lacks",
                at=str(path),
                hint="compile the model here",
            )
        graph, _ = load_tiny(stored.artifact.tiny)
        bound = BoundModel(graph, stored.constants, stored.artifact.notes)
        compiled = load_compiled(stored.artifact, bound, load_library(stored.code), clock)
    model = TinyModel(parse(stored.artifact.tiny), stored.constants)
    return Program(model, lambda _: compiled, threads or stored.artifact.target.units, compiled)


def folded(module: Module, constants: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The constants, and what the compile-time calls make of them."""
    values = dict(constants)
    for call in module.calls:
        if call.when == "compile":
            inputs = {buffer.name: values[slot] for buffer, slot in zip(call.region.inputs, call.reads, strict=True)}
            results = play_region(call.region, inputs)
            for buffer, slot in zip(call.region.outputs, call.writes, strict=True):
                values[slot] = np.ascontiguousarray(results[buffer.name])
    return values


def unfused_ns(graph: Graph, target: Target) -> float:
    """A bound from below on the time of the program as written, one kernel a uop."""
    total = 0.0
    for node in graph.nodes:
        if node.uop != "INPUT":
            result = graph.types[node.id]
            sources = graph.operand_types(node)
            moved = result.nbytes + sum(graph.types[ref].nbytes for ref in node.refs)
            total += lower_bound_ns(total_flops(node.op, sources, result), moved, target)
    return total


def find_target(wanted: str | Target) -> Target:
    """The target by name; "auto" is this machine's CPU."""
    if isinstance(wanted, Target):
        if wanted.is_gpu:
            fail(Kind.NO_DEVICE, "target", f"no code generator for {wanted.arch} in this version", hint="cpu")
        return wanted
    if wanted not in ("auto", "cpu"):
        fail(Kind.UNKNOWN_TARGET, "target", f"there is no target {wanted!r}", hint='"auto", "cpu", or a Target')
    here = machine()
    return cpu_target(
        arch=here.arch,
        cores=here.cores,
        lanes=here.lanes,
        clock_hz=NOMINAL_CLOCK_HZ,
        l1_bytes=here.l1_bytes,
        l2_bytes=here.l2_bytes,
        l3_bytes=here.l3_bytes,
        source=f"{here.cpu}, nominal clock",
    )


def examine() -> dict[str, str]:
    """Facts and measured peaks of this machine, by name, for people."""
    here, compiler = machine(), find_compiler()
    peaks = measure_peaks(here)
    facts = {
        "cpu": here.cpu,
        "instruction sets": f"{here.arch} ({', '.join(here.features)})",
        "cores": str(here.cores),
        "caches": f"L1 {here.l1_bytes >> 10} KiB, L2 {here.l2_bytes >> 10} KiB, L3 {here.l3_bytes >> 10} KiB",
        "compiler": str(compiler),
        "cache folder": str(cache_dir()),
    }
    facts |= {f"fp32 FMA, {n} threads": f"{rate / 1e9:.0f} GFLOP/s" for n, rate in peaks.fma_flops.items()}
    facts |= {f"copy, {n} threads": f"{rate / 1e9:.1f} GB/s" for n, rate in peaks.copy_bytes.items()}
    return facts


def _report(call: Call, price: Price, function: str) -> KernelReport:
    return KernelReport(
        name=call.region.name,
        function=function,
        uops=call.uops,
        rules=call.rules,
        flops=price.work.flops,
        bytes=price.work.bytes,
        occupancy=price.work.occupancy,
        efficiency=price.work.efficiency,
        bound=price.bound,
        estimated_ns=price.time_ns,
    )
