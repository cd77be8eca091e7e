"""What the optimizer decided → the recipe of a program."""

from __future__ import annotations

from eqsat.cost.roofline import unfused_ns
from eqsat.egraph.saturate import SaturationStats
from eqsat.extraction.cover import Cover
from eqsat.options import Options
from eqsat.runtime.artifact import Recipe
from eqsat.runtime.kernel_term import kernel_term
from eqsat.runtime.stats import Stats
from ir.module.module import Module
from ir.pricer import Price
from ir.target import Target
from ir.tiny.graph import Graph


def recipe_of(
    graph: Graph,
    target: Target,
    options: Options,
    saturation: SaturationStats,
    cover: Cover,
    module: Module,
    prices: tuple[Price, ...],
) -> Recipe:
    """The recipe of a graph whose cover became `module`."""
    running = [kernel for kernel in cover.kernels if kernel.price]
    return Recipe(
        target=target,
        options=options,
        tiny=graph.to_json(),
        module=module,
        prices=prices,
        selections=tuple(kernel.selection for kernel in running),
        terms=tuple(kernel_term(kernel.trees, cover.names) for kernel in running),
        stats=Stats(
            uops=len(graph.nodes),
            kernels_before=sum(node.uop != "INPUT" for node in graph.nodes),
            kernels_after=len(prices),
            candidates=cover.considered,
            estimated_before_ns=unfused_ns(graph, target),
            saturation=saturation,
            seconds={},
            extraction=cover.diagnostics,
        ),
    )
