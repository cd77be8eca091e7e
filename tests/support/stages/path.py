"""The stages of the path, one by one: covers of a graph as modules, and modules as running code."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from codegen.backends.cpu import CpuBackend
from codegen.compile.library import ARGUMENTS, POOL, build
from codegen.compile.machine import machine
from codegen.plan.cpu.candidates import candidates
from codegen.poly.analyse import analyse
from codegen.run.executable import CpuExecutable
from codegen.text.program_to_c import c_units, kernel_texts, launch_table
from eqsat.assembly.assemble import AssembledModule, assemble
from eqsat.assembly.fold import fold
from eqsat.cost.pricing import PlanPricer
from eqsat.egraph.view import EGraphView
from eqsat.extraction.extract import extract
from eqsat.find_target import find_target
from eqsat.pipeline import lower_module
from ir.dtype import dtype
from ir.module.module import Module
from ir.pricer import Price, Pricer
from ir.term.rule import Exactness
from ir.tiny.graph import Graph
from rules import select
from tests.support.cpu.quick_flags import quick_flags
from tests.support.oracles.agree import disagreement
from tests.support.oracles.canary import saturate
from tests.support.oracles.module_playback import play_module
from tests.support.stages.random_covers import random_covers

Arrays = Mapping[str, np.ndarray]


@cache
def pricer() -> PlanPricer:
    """Prices for this machine's CPU."""
    return PlanPricer(find_target("cpu"), analyse, candidates)


def saturated(graph: Graph, exactness: Exactness = Exactness.ROUNDING) -> EGraphView:
    view, _ = saturate(graph, select(None), exactness)
    return view


def best(graph: Graph, view: EGraphView) -> AssembledModule:
    """The cover that the optimizer would choose."""
    return assemble(extract(view, graph.outputs, pricer()), view, graph)


def covered(graph: Graph, view: EGraphView, seed: int, chosen: Pricer | None = None) -> AssembledModule:
    """A random cover of kernels that the pricer (this machine's, where none is given) takes for legal."""
    return next(covers(graph, view, [seed], chosen))


def covers(
    graph: Graph, view: EGraphView, seeds: Iterable[int], chosen: Pricer | None = None
) -> Iterator[AssembledModule]:
    """A random cover by each seed, as `covered` has it; a cover depends on those before it."""
    for cover in random_covers(view, graph.outputs, chosen or pricer(), map(random.Random, seeds)):
        yield assemble(cover, view, graph)


def compiled(module: Module, prices: tuple[Price, ...]) -> Callable[[Arrays], list[np.ndarray]]:
    """The module's kernels, built and loaded: inputs → outputs in order. No constants."""
    lowered = lower_module(module, prices, CpuBackend())
    table = launch_table(module, lowered)
    units, common = c_units(kernel_texts(lowered.values()), table, flush=True), frozenset([POOL, ARGUMENTS])
    library = build(units, machine(), flags=quick_flags(machine()), common=common)
    executable = CpuExecutable(module, table, library, fold(module, {}), 2)
    memrefs = {slot.name: slot.memref for slot in module.slots}

    def run(inputs: Arrays) -> list[np.ndarray]:
        results = [memrefs[slot] for _, slot in module.outputs]
        outputs = [np.empty(result.shape, dtype(result.dtype).numpy) for result in results]
        given = [np.ascontiguousarray(inputs[name]).reshape(np.shape(inputs[name])) for name in module.inputs]
        executable.run(given, outputs, 2)
        return outputs

    return run


def complaint(graph: Graph, inputs: Arrays, got: Sequence[np.ndarray]) -> str:
    """What is wrong with these outputs; empty when they agree with playback."""
    verdicts = zip(graph.outputs, disagreement(graph, inputs, got), strict=True)
    return "; ".join(f"output {ref}: {verdict.note}" for ref, verdict in verdicts if verdict.wrong)


def first_guilty_stage(graph: Graph, inputs: Arrays, count: int = 12) -> tuple[str, str]:
    """The first stage that fails on this program or computes something else than playback, and what it said;
    ("", "") when none does."""
    from ir.tiny.playback import playback

    stage = "graph playback"
    try:
        playback(graph, inputs)
        playback(graph, inputs, wide=True)
        stage = "saturation"
        view = saturated(graph)
        stage = "random cover 0"
        for seed, (module, _) in enumerate(covers(graph, view, range(count))):
            stage = f"region playback of random cover {seed}"
            if wrong := complaint(graph, inputs, play_module(module, inputs)):
                return stage, wrong
        stage = "extraction"
        module, prices = best(graph, view)
        stage = "module playback"
        if wrong := complaint(graph, inputs, play_module(module, inputs)):
            return stage, wrong
        stage = "C"
        if wrong := complaint(graph, inputs, compiled(module, prices)(inputs)):
            return stage, wrong
    except Exception as error:
        return stage, f"{type(error).__name__}: {error}"
    return "", ""
