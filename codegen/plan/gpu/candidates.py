"""The candidate plans of a region on a GPU, each with the work that it makes."""

from __future__ import annotations

from codegen.plan.gpu.contraction_candidates import contraction_candidates
from codegen.plan.gpu.nest_candidates import gpu_nest_candidates
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.pricer import Work
from ir.region import Region
from ir.target import Target


def candidates(region: Region, core: PolyCore, target: Target, *, ordered: bool = False) -> list[tuple[Plan, Work]]:
    """Plans from the template of contractions, or of nests of points and rows; none where the region fits neither, as
    streams do. `ordered`: they take the terms of floating-point sums and products in index order."""
    if any(let.op.kind == "stream" for let in region.body):
        return []
    if core.contraction is not None:
        return contraction_candidates(region, core, target, ordered=ordered)
    return gpu_nest_candidates(region, core, target, ordered=ordered)
