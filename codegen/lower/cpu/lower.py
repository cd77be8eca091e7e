"""A region and its plan → a CPU kernel: the template of contractions, that of streams in tiles, or a loop nest."""

from __future__ import annotations

from codegen.lower.cpu.lower_attention import lower_attention
from codegen.lower.cpu.lower_contraction import ContractionKernel, lower_contraction
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.plan.cpu.stream_blocks import ALGORITHM
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.region import Region

Lowered = ContractionKernel


def lower(region: Region, core: PolyCore, plan: Plan, name: str) -> Lowered:
    """The kernel under the C name `name`, with the constants packed for it.

    Raises:
        EqsatError: ResourceExceeded where the plan promises that a tile divides an axis and it does not.
    """
    if core.streams is not None and ALGORITHM in plan.algo_choice:
        return lower_attention(region, core, plan, name)
    if core.contraction is not None:
        return lower_contraction(region, core, plan, name)
    return Lowered(lower_nest(region, core, plan, name), tuple(each.name for each in region.buffers), ())
