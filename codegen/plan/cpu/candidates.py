"""The candidate plans of a region with their work."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.plan.cpu.contraction_candidates import contraction_candidates
from codegen.plan.cpu.nest_candidates import nest_candidates
from codegen.plan.cpu.scatter_candidates import scatter_candidates
from codegen.plan.cpu.stream_candidates import stream_candidates
from ir.plan.plan import CpuPlan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region, ends_in_bits_of_halves
from ir.target import Target
from ir.term.rule import Exactness


def candidates(
    region: Region, core: PolyCore, target: Target, exactness: Exactness = Exactness.ROUNDING
) -> Sequence[tuple[CpuPlan, Work]]:
    """Plans of the template that fits the region: contraction, stream in tiles, scatter, or nest; none where no
    template fits. At an exactness below "reassociate" plans take the terms of floating-point sums and products in
    index order."""
    ordered = exactness < Exactness.REASSOCIATE
    if ordered and any(let.op.kind == "stream" for let in region.body):
        return []  # a stream rescales partial sums, which changes their order
    if core.streams is not None:
        in_tiles = stream_candidates(region, core, target)
        return in_tiles if core.streams.contraction else [*in_tiles, *nest_candidates(region, core, target)]
    if core.contraction is not None:
        return contraction_candidates(region, core, target, ordered=ordered)
    if any(let.op.kind == "scatter" for let in region.body):
        if ends_in_bits_of_halves(region):
            return []
        return scatter_candidates(region, core, target)
    return nest_candidates(region, core, target, ordered=ordered)
