"""A region and its plan → a CPU kernel, by the template of contractions, of streams in tiles, or of nests."""

from __future__ import annotations

from codegen.lower.cpu.lower_contraction import ContractionKernel, lower_contraction
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.lower.cpu.lower_stream import lower_stream
from ir.diagnostics import Kind, fail
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuStreamPlan
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.region.region import Region

Lowered = ContractionKernel


def lower(region: Region, core: PolyCore, plan: Plan, name: str) -> Lowered:
    """The kernel with the C name `name`, and its packed constants.

    Raises:
        EqsatError: where the plan does not fit the region, or no template covers it.
    """
    match plan:
        case CpuContractionPlan():
            return lower_contraction(region, core, plan, name)
        case CpuStreamPlan():
            return lower_stream(region, core, plan, name)
        case CpuNestPlan():
            return Lowered(lower_nest(region, core, plan, name), tuple(buffer.name for buffer in region.buffers), ())
    fail(Kind.UNKNOWN_TARGET, "lower", f"a plan for {plan.arch} on a CPU", at=region.name)
