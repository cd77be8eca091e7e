"""The path, a call a noun: Tiny graph → e-graph → cover → module → IndexBook → Poly-View → Poly Core → kernel → text.

`eqsat.model` reads a frontend's program and binds its sizes, which gives the Tiny graph. Plans come with prices: the
pricer that `extract` takes plans each region, and the plan that won is lowered. `eqsat.compile_model` turns the text
into code and a program.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from codegen.backends.backend_of import backend_of
from codegen.poly.analyse import check
from codegen.poly.indexbook_to_poly_view import poly_view
from codegen.poly.poly_view_to_poly_core import poly_core
from codegen.poly.region_to_indexbook import index_book
from codegen.text.tag_comments import with_tags
from eqsat.assembly.assemble import assemble
from eqsat.assembly.concatenate_in_place import concatenate_in_place
from eqsat.assembly.link import link
from eqsat.assembly.priced_module import PricedModule
from eqsat.assembly.rename_part import rename_cover, rename_view
from eqsat.assembly.update_in_place import update_in_place
from eqsat.building.cover_parts import OpenPart, cover_parts
from eqsat.clock import Clock
from eqsat.cover_part import Choose, CoveredPart, cover_part
from eqsat.extraction.cover import Cover
from eqsat.extraction.layouts.neighbours import PartCover, choose_neighbouring_layouts
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels
from eqsat.garbage_collector import uncollected
from eqsat.logs.records import tell_plans
from eqsat.looping.edges import edges_of_equals, part_groups
from eqsat.looping.part_form import part_form, renaming
from eqsat.looping.parts import Part, Steps, parts_of
from eqsat.looping.split import split
from eqsat.model import BoundModel
from eqsat.options import Options
from eqsat.planning.target_pricer import pricer_for, with_inputs
from eqsat.runtime.artifact import Artifact, Recipe, seal
from eqsat.runtime.cover_to_recipe import OptimizedPart, recipe_of
from eqsat.updates import updates_of
from ir.backend import Backend, Lowered, function_name
from ir.grammar import with_count
from ir.kernel.gpu.kernel import GLOBAL_ALIGNMENT
from ir.module.module import Module
from ir.pricer import Price
from ir.target import Target
from ir.tiny.graph import Ref


@uncollected()
def optimize(
    bound: BoundModel, target: Target, options: Options, clock: Clock, choose: Choose | None = None
) -> Artifact:
    """Tiny graph → e-graph → cover → module, its kernels with their plans → text. Loops, and calls that are cut out,
    divide a graph into parts, each of which has an e-graph and a cover of its own; one module runs them. choose: takes
    one of the covers that the estimate puts first; None takes the first."""
    target = with_inputs(target, bound)
    steps = split(bound.graph, bound.constants)
    optimized = optimize_parts(steps, bound.graph.outputs, target, options, clock, choose)
    is_whole = any(one.part.graph is bound.graph for one in optimized)
    module = optimized[0].module if is_whole else _link(steps, optimized, bound, target)
    recipe = recipe_of(bound.graph, target, options, optimized, module)
    with clock.stage("extract"):
        pricer = pricer_for(target, options, bound.graph)
        recipe = _with_module(recipe, concatenate_in_place(recipe.module, recipe.prices, pricer))
        if options.updates:
            updates = updates_of(options, bound)
            recipe = _with_module(recipe, update_in_place(recipe.module, recipe.prices, updates, pricer))
    with clock.stage("lower"):
        clock.count(with_count(len(module.running), "kernel"))
        artifact = write(recipe, recipe.prices, backend_of(target))
    return msgspec.structs.replace(artifact, stats=msgspec.structs.replace(artifact.stats, seconds=dict(clock.seconds)))


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
    several = [OpenPart(like[0], frozenset(edges_of_equals(like, edges))) for like in equal.values()]
    if choose is None:
        chosen = cover_parts(several, pricer, target, options, clock)
    else:
        chosen = [cover_part(*one, pricer, target, options, clock, choose) for one in several]
    covered: dict[int, CoveredPart] = {}
    for first, (_, *others) in zip(chosen, equal.values(), strict=True):
        covered[id(first.part)] = first
        covered |= {id(other): _rename(other, first) for other in others}
    optimized: dict[int, OptimizedPart] = {}
    with clock.stage("extract"):
        for group in groups:
            members = [covered[id(part)] for part in group.parts]
            for one, cover in zip(members, _lay_out(members, edges, permuted), strict=True):
                optimized[id(one.part)] = _assemble(one, cover)
    return [optimized[id(part)] for part in parts]


def _rename(part: Part, first: CoveredPart) -> CoveredPart:
    """A part as an equal part was covered."""
    view = rename_view(first.egraph, renaming(first.part, part))
    return CoveredPart(part, None, view, rename_cover(first.cover, view, part.graph.outputs, part.prefix))


def _lay_out(
    several: Sequence[CoveredPart], edges: frozenset[Ref], permuted: PermutedKernels | None
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


def _assemble(covered: CoveredPart, cover: Cover) -> OptimizedPart:
    graph, constants = covered.part.graph, sorted(covered.part.constants)
    module, prices = assemble(cover, covered.egraph, graph, constants)
    tell_plans(module, prices)
    return OptimizedPart(covered.part, covered.saturation, cover, module, prices)


def _link(steps: Steps, optimized: Sequence[OptimizedPart], bound: BoundModel, target: Target) -> Module:
    alignment = GLOBAL_ALIGNMENT if target.is_gpu else 1
    return link(steps, [part.module for part in optimized], bound.graph, tuple(bound.signature), alignment)


def _with_module(recipe: Recipe, changed: PricedModule) -> Recipe:
    """The recipe of the same program with another module."""
    return msgspec.structs.replace(
        recipe,
        module=changed.module,
        prices=changed.prices,
        selections=tuple(recipe.selections[place] for place in changed.kept),
        terms=tuple(recipe.terms[place] for place in changed.kept),
        parts=tuple(recipe.parts[place] for place in changed.kept),
        stats=msgspec.structs.replace(recipe.stats, kernels_after=len(changed.module.running)),
    )


def write(recipe: Recipe, prices: tuple[Price, ...], backend: Backend) -> Artifact:
    """Module → kernels → launches and text, by the plans of these prices."""
    kernels = lower_module(recipe.module, prices, backend)
    table = backend.launches(recipe.module, kernels)
    texts = backend.texts(kernels.values())
    units = backend.units(texts, table, recipe.options.flushes)
    known = {name: getattr(recipe, name) for name in Recipe.__struct_fields__}
    tagged = with_tags(texts, recipe.module)
    return seal(Artifact(**{**known, "prices": prices}, table=table, units=units, kernels=tagged))


def kernel_texts(module: Module, prices: tuple[Price, ...], target: Target) -> list[str]:
    """Module → kernels → the text of each launch's kernel, which needs no compiler."""
    backend = backend_of(target)
    texts = with_tags(backend.texts(lower_module(module, prices, backend).values()), module)
    return [texts[function_name(call.region)] for call in module.running]


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
