"""The path, a call a noun: Tiny graph → e-graph → cover → module → IndexBook → Poly-View → Poly Core → kernel → text.

`eqsat.model` reads a frontend's program and binds its sizes, which gives the Tiny graph. Plans come with prices: the
pricer that `extract` takes plans each region, and the plan that won is lowered. `eqsat.compile_model` turns the text
into code and a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from codegen.backends.backend_of import backend_of
from codegen.poly.analyse import check
from codegen.poly.indexbook_to_poly_view import poly_view
from codegen.poly.poly_view_to_poly_core import poly_core
from codegen.poly.region_to_indexbook import index_book
from codegen.text.tag_comments import with_tags
from eqsat.assembly.assemble import assemble
from eqsat.assembly.link import link
from eqsat.assembly.rename_part import rename_cover, rename_view
from eqsat.clock import Clock
from eqsat.cost.pricing import PlanPricer
from eqsat.egraph.saturate import saturate
from eqsat.egraph.saturation_stats import SaturationStats
from eqsat.egraph.view import EGraphView
from eqsat.extraction.cover import Cover
from eqsat.extraction.extract import extract_several
from eqsat.extraction.layouts.neighbours import PartCover, choose_neighbouring_layouts
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels
from eqsat.garbage_collector import release_memory, uncollected
from eqsat.logs.records import tell_cover, tell_plans, tell_saturation
from eqsat.looping.edges import edges_of_equals, part_groups
from eqsat.looping.part_form import part_form, renaming
from eqsat.looping.parts import Part, Steps, parts_of
from eqsat.looping.split import split
from eqsat.model import BoundModel
from eqsat.options import Options
from eqsat.planning.target_pricer import cold_inputs, pricer_for
from eqsat.runtime.artifact import Artifact, Recipe, seal
from eqsat.runtime.cover_to_recipe import OptimizedPart, recipe_of
from ir.backend import Backend, Lowered, function_name
from ir.grammar import with_count
from ir.kernel.gpu.kernel import GLOBAL_ALIGNMENT
from ir.module.module import Module
from ir.pricer import Price
from ir.target import Target
from ir.tiny.graph import Ref
from rules import select

NEAR_COVERS = 8
"""Covers that a choice by measurement is made among."""
Choose = Callable[[Sequence[Cover]], Cover]


@uncollected()
def optimize(
    bound: BoundModel, target: Target, options: Options, clock: Clock, choose: Choose | None = None
) -> Artifact:
    """Tiny graph → e-graph → cover → module, its kernels with their plans → text. Loops, and calls that are cut out,
    divide a graph into parts, which take this path one after another; one module runs them. choose: takes one of the
    covers that the estimate puts first; None takes the first."""
    steps = split(bound.graph, bound.constants)
    optimized = optimize_parts(steps, bound.graph.outputs, target, options, clock, choose)
    is_whole = any(one.part.graph is bound.graph for one in optimized)
    module = optimized[0].module if is_whole else _link(steps, optimized, bound, target)
    recipe = recipe_of(bound.graph, target, options, optimized, module)
    with clock.stage("lower"):
        clock.count(with_count(len(module.running), "kernel"))
        artifact = write(recipe, recipe.prices, backend_of(target))
    return msgspec.structs.replace(artifact, stats=msgspec.structs.replace(artifact.stats, seconds=dict(clock.seconds)))


class _CoveredPart(NamedTuple):
    """A part with the cover that was chosen for it, its buffers row-major. saturation: None of a part that equals an
    earlier one."""

    part: Part
    saturation: SaturationStats | None
    egraph: EGraphView
    cover: Cover


def optimize_parts(
    steps: Steps,
    outputs: Sequence[Ref],
    target: Target,
    options: Options,
    clock: Clock,
    choose: Choose | None = None,
) -> list[OptimizedPart]:
    """The kernels of every part, in the order of `parts_of`. outputs: of the program. Of parts that are equal but for
    names, the first one is optimized."""
    parts = tuple(parts_of(steps))
    pricer = pricer_for(target, options, *(part.graph for part in parts))
    permuted = PermutedKernels(pricer, packs=not target.is_gpu) if options.cost_model.relayout else None
    groups = list(part_groups(steps, outputs))
    edges = frozenset[Ref]().union(*(group.edges for group in groups))
    equal: dict[object, list[Part]] = {}
    for part in parts:
        equal.setdefault(part_form(part), []).append(part)
    covered: dict[int, _CoveredPart] = {}
    for first, *others in equal.values():
        own = frozenset(edges_of_equals([first, *others], edges))
        chosen = covered[id(first)] = _cover_part(first, own, pricer, target, options, clock, choose)
        covered |= {id(other): _rename(other, chosen) for other in others}
    optimized: dict[int, OptimizedPart] = {}
    with clock.stage("extract"):
        for group in groups:
            several = [covered[id(part)] for part in group.parts]
            for one, cover in zip(several, _lay_out(several, edges, permuted), strict=True):
                optimized[id(one.part)] = _assemble(one, cover)
    return [optimized[id(part)] for part in parts]


def _cover_part(
    part: Part,
    edges: frozenset[Ref],
    pricer: PlanPricer,
    target: Target,
    options: Options,
    clock: Clock,
    choose: Choose | None,
) -> _CoveredPart:
    graph, constants = part.graph, sorted(part.constants)
    with clock.stage("saturate"):
        rules = select(options.rules, options.exactness)
        egraph, saturation = saturate(
            graph,
            rules,
            options.exactness,
            options.budget,
            constants=constants,
            report=lambda done: clock.count(f"phase {done.phase + 1}, {done.nodes:,} e-nodes"),
        )
        release_memory()  # the e-graph is gone; its view remains
        tell_saturation(saturation)
    with clock.stage("extract"):
        clock.count(f"{len(graph.nodes):,} uops")
        covers = extract_several(
            1 if choose is None else NEAR_COVERS,
            egraph,
            graph.outputs,
            pricer,
            constants=constants,
            extractor=options.extractor,
            joining=options.cost_model.joining,
            relayout=options.cost_model.relayout,
            prefix=part.prefix,
            cold=cold_inputs(part.given, target),
            packs=not target.is_gpu,
            as_written=bool(options.cost_model.own),
            free={egraph.tiny[ref] for ref in edges},
        )
        cover = covers[0] if choose is None else choose(covers)
        tell_cover(cover)
    return _CoveredPart(part, saturation, egraph, cover.unordered)


def _rename(part: Part, first: _CoveredPart) -> _CoveredPart:
    """A part as an equal part was covered."""
    view = rename_view(first.egraph, renaming(first.part, part))
    return _CoveredPart(part, None, view, rename_cover(first.cover, view, part.graph.outputs, part.prefix))


def _lay_out(
    several: Sequence[_CoveredPart], edges: frozenset[Ref], permuted: PermutedKernels | None
) -> Sequence[Cover]:
    """The covers of the parts of a group with their buffers in the orders that are cheapest for all together."""
    if permuted is None:
        return [one.cover for one in several]
    return choose_neighbouring_layouts(
        [
            PartCover(one.cover, {ref: one.egraph.tiny[ref] for ref in one.part.graph.types if ref in edges})
            for one in several
        ],
        permuted,
    )


def _assemble(covered: _CoveredPart, cover: Cover) -> OptimizedPart:
    graph, constants = covered.part.graph, sorted(covered.part.constants)
    module, prices = assemble(cover, covered.egraph, graph, constants)
    tell_plans(module, prices)
    return OptimizedPart(covered.part, covered.saturation, cover, module, prices)


def _link(steps: Steps, optimized: Sequence[OptimizedPart], bound: BoundModel, target: Target) -> Module:
    alignment = GLOBAL_ALIGNMENT if target.is_gpu else 1
    return link(steps, [part.module for part in optimized], bound.graph, tuple(bound.signature), alignment)


def write(recipe: Recipe, prices: tuple[Price, ...], backend: Backend) -> Artifact:
    """Module → kernels → launches and text, by the plans of these prices."""
    kernels = lower_module(recipe.module, prices, backend)
    table = backend.launches(recipe.module, kernels)
    units = backend.units(kernels.values(), table, recipe.options.flushes)
    known = {name: getattr(recipe, name) for name in Recipe.__struct_fields__}
    texts = _tagged_texts(kernels, recipe.module, backend)
    return seal(Artifact(**{**known, "prices": prices}, table=table, units=units, kernels=texts))


def kernel_texts(module: Module, prices: tuple[Price, ...], target: Target) -> list[str]:
    """Module → kernels → the text of each launch's kernel, which needs no compiler."""
    backend = backend_of(target)
    texts = _tagged_texts(lower_module(module, prices, backend), module, backend)
    return [texts[function_name(call.region)] for call in module.running]


def _tagged_texts(kernels: Mapping[str, Lowered], module: Module, backend: Backend) -> dict[str, str]:
    return with_tags(backend.texts(kernels.values()), module)


def lower_module(module: Module, prices: tuple[Price, ...], backend: Backend) -> dict[str, Lowered]:
    """Region → IndexBook → Poly-View → Poly Core → kernel, by the plan that won: each region that runs, by its name."""
    kernels: dict[str, Lowered] = {}
    for call, price in zip(module.running, prices, strict=True):
        region = call.region
        if region.name not in kernels:
            book = index_book(region)
            view = poly_view(region, book)
            core = poly_core(region, book, view)
            check(book, view, core)
            kernels[region.name] = backend.lower(region, core, price.plan, function_name(region))
    return kernels
