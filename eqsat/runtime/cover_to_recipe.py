"""The optimizer's choices → the recipe of a program."""

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


def recipe_of(graph: Graph, target: Target, options: Options, parts: Sequence[OptimizedPart], module: Module) -> Recipe:
    """The recipe of a graph whose parts became `module`."""
    running = [(number, kernel) for number, part in enumerate(parts) for kernel in part.cover.kernels if kernel.price]
    return Recipe(
        target=target,
        options=options,
        tiny=graph.to_json(),
        module=module,
        prices=tuple(price for part in parts for price in part.prices),
        selections=tuple(kernel.selection for _, kernel in running),
        terms=tuple(kernel_term(kernel.trees, parts[number].cover.names) for number, kernel in running),
        parts=tuple(number for number, _ in running),
        stats=Stats(
            uops=sum(len(part.part.graph.nodes) for part in parts),
            kernels_before=sum(node.uop != "INPUT" for part in parts for node in part.part.graph.nodes),
            kernels_after=len(module.running),
            candidates=sum(part.cover.considered for part in parts),
            estimated_before_ns=unfused_ns(graph, target),
            saturation=whole_saturation([part.saturation for part in parts if part.saturation is not None]),
            seconds={},
            extraction=tuple(diagnostic for part in parts for diagnostic in part.cover.diagnostics),
        ),
    )
