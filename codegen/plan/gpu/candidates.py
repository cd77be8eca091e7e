"""The candidate plans of a region on a GPU with their work."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from codegen.plan.gpu.approximations import has_approximations
from codegen.plan.gpu.contraction_candidates import contraction_candidates
from codegen.plan.gpu.nest_candidates import nest_candidates
from codegen.plan.gpu.nest_region import nest_region
from codegen.plan.gpu.scatter_candidates import scatter_candidates
from codegen.plan.gpu.stream_candidates import stream_candidates
from ir.plan.plan import GpuPlan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region, ends_in_bits_of_halves
from ir.target import Target
from ir.term.rule import Exactness


def candidates(
    region: Region, core: PolyCore, target: Target, exactness: Exactness = Exactness.ROUNDING, tf32: bool = False
) -> Sequence[tuple[GpuPlan, Work]]:
    """Plans of the template that fits the region: contraction, stream in tiles, scatter, or nest; none where no
    template fits. At an exactness below "reassociate" plans take the terms of floating-point sums and products in
    index order; at "range" plans assume that inputs are finite. `tf32`: products of fp32 may round their operands
    to tf32. From "rounding" on functions whose results have 16 bits may be approximations."""
    plans = _candidates(region, core, target, exactness, tf32)
    if exactness < Exactness.ROUNDING or not has_approximations(region):
        return plans
    return [(msgspec.structs.replace(plan, approximate=True), work) for plan, work in plans]


def _candidates(
    region: Region, core: PolyCore, target: Target, exactness: Exactness, tf32: bool
) -> Sequence[tuple[GpuPlan, Work]]:
    ordered = exactness < Exactness.REASSOCIATE
    if any(let.op.kind == "stream" for let in region.body):
        if ordered:
            return []  # a stream rescales partial sums, which changes their order
        return _stream_plans(region, core, target, finite=exactness >= Exactness.RANGE, tf32=tf32)
    is_nest = core.contraction is None and not any(let.op.kind == "scatter" for let in region.body)
    if ends_in_bits_of_halves(region) and not is_nest:
        return []  # other templates hold results in registers of fp32
    if core.contraction is not None:
        return contraction_candidates(region, core, target, ordered=ordered, tf32=tf32)
    if any(let.op.kind == "scatter" for let in region.body):
        return scatter_candidates(region, core, target)
    return nest_candidates(region, core, target, ordered=ordered, relative=exactness >= Exactness.ROUNDING)


def _stream_plans(
    region: Region, core: PolyCore, target: Target, *, finite: bool, tf32: bool
) -> Sequence[tuple[GpuPlan, Work]]:
    """Plans of streams in tiles where the scores are tiles; else of nests, with reductions in place of the streams."""
    if core.streams is not None and not ends_in_bits_of_halves(region):
        in_tiles = stream_candidates(region, core, target, finite=finite, tf32=tf32)
        if in_tiles or core.streams.contraction is not None:
            return in_tiles
    return nest_candidates(*nest_region(region, core), target, relative=True)
