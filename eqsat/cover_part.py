"""A part of a program → the kernels that are chosen for it: Tiny graph → e-graph → cover."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from eqsat.clock import Clock
from eqsat.egraph.saturate import saturate
from eqsat.egraph.saturation_stats import SaturationStats
from eqsat.egraph.view import EGraphView
from eqsat.extraction.cover import Cover
from eqsat.extraction.extract import extract_several
from eqsat.garbage_collector import release_memory
from eqsat.logs.records import tell_cover, tell_saturation
from eqsat.looping.parts import Part
from eqsat.options import Options
from eqsat.planning.target_pricer import cold_inputs
from ir.pricer import Pricer
from ir.target import Target
from ir.tiny.graph import Ref
from rules import select

NEAR_COVERS = 8
"""Covers that a choice by measurement is made among."""
Choose = Callable[[Sequence[Cover]], Cover]


class CoveredPart(NamedTuple):
    """A part with the cover that was chosen for it, its buffers row-major. saturation: None of a part that equals an
    earlier one."""

    part: Part
    saturation: SaturationStats | None
    egraph: EGraphView
    cover: Cover


def cover_part(
    part: Part,
    edges: Collection[Ref],
    pricer: Pricer,
    target: Target,
    options: Options,
    clock: Clock,
    choose: Choose | None = None,
) -> CoveredPart:
    """The part with its cover. edges: its inputs and outputs that only kernels of other parts see. choose: takes one of
    the covers that the estimate puts first; None takes the first."""
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
            given=None if target.is_gpu else part.given,
            packs=not target.is_gpu,
            as_written=bool(options.cost_model.own),
            free={egraph.tiny[ref] for ref in edges},
        )
        cover = covers[0] if choose is None else choose(covers)
        tell_cover(cover)
    return CoveredPart(part, saturation, egraph, cover.unordered)
