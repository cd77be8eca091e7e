"""The candidate plans of a region on a GPU, each with the work that it makes."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.plan.gpu.contraction_candidates import contraction_candidates
from codegen.plan.gpu.nest_candidates import gpu_nest_candidates
from codegen.plan.gpu.nest_region import nest_region
from codegen.plan.gpu.stream_candidates import gpu_stream_candidates
from ir.plan.plan import GpuPlan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target
from ir.term.rule import Exactness


def candidates(
    region: Region, core: PolyCore, target: Target, exactness: Exactness = Exactness.ROUNDING, tf32: bool = False
) -> Sequence[tuple[GpuPlan, Work]]:
    """Plans from the templates of contractions and of streams in tiles, or of nests of points and rows; none where the
    region fits none of them. Below "reassociate" they take the terms of floating-point sums and products in index
    order; at "range" they take inputs for finite. `tf32`: products of floats may round their operands to it."""
    ordered = exactness < Exactness.REASSOCIATE
    if any(let.op.kind == "stream" for let in region.body):
        if ordered:
            return []  # a stream rescales sums of several terms
        return _of_streams(region, core, target, finite=exactness >= Exactness.RANGE)
    if core.contraction is not None:
        return contraction_candidates(region, core, target, ordered=ordered, tf32=tf32)
    return gpu_nest_candidates(region, core, target, ordered=ordered, relative=exactness >= Exactness.ROUNDING)


def _of_streams(region: Region, core: PolyCore, target: Target, *, finite: bool) -> Sequence[tuple[GpuPlan, Work]]:
    """In tiles where the scores are tiles; else in nests, as the reductions that they stand for."""
    if core.streams is not None:
        in_tiles = gpu_stream_candidates(region, core, target, finite=finite)
        if in_tiles or core.streams.contraction is not None:
            return in_tiles
    return gpu_nest_candidates(*nest_region(region, core), target, relative=True)
