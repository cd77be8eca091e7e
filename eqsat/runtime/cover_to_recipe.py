"""What the optimizer decided → the recipe of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eqsat.cost.roofline import unfused_ns
from eqsat.egraph.saturation_stats import SaturationStats, whole_saturation
from eqsat.extraction.cover import Cover
from eqsat.looping.parts import Part
from eqsat.options import Options
from eqsat.runtime.artifact import Recipe
from eqsat.runtime.kernel_term import kernel_term
from eqsat.runtime.stats import Stats
from ir.module.module import Module
from ir.pricer import Price
from ir.target import Target
from ir.tiny.graph import Graph


class OptimizedPart(NamedTuple):
    """A part of a program with the kernels that it became. saturation: None of a part that was not optimized by itself,
    since it equals an earlier one. prices: of the calls that run."""

    part: Part
    saturation: SaturationStats | None
    cover: Cover
    module: Module
    prices: tuple[Price, ...]


def recipe_of(graph: Graph, target: Target, options: Options, made: Sequence[OptimizedPart], module: Module) -> Recipe:
    """The recipe of a graph whose parts became `module`."""
    running = [(number, kernel) for number, each in enumerate(made) for kernel in each.cover.kernels if kernel.price]
    return Recipe(
        target=target,
        options=options,
        tiny=graph.to_json(),
        module=module,
        prices=tuple(price for each in made for price in each.prices),
        selections=tuple(kernel.selection for _, kernel in running),
        terms=tuple(kernel_term(kernel.trees, made[number].cover.names) for number, kernel in running),
        parts=tuple(number for number, _ in running),
        stats=Stats(
            uops=sum(len(each.part.graph.nodes) for each in made),
            kernels_before=sum(node.uop != "INPUT" for each in made for node in each.part.graph.nodes),
            kernels_after=len(module.running),
            candidates=sum(each.cover.considered for each in made),
            estimated_before_ns=unfused_ns(graph, target),
            saturation=whole_saturation([each.saturation for each in made if each.saturation is not None]),
            seconds={},
            extraction=tuple(diagnostic for each in made for diagnostic in each.cover.diagnostics),
        ),
    )
