"""A region and its plan → a GPU kernel, by the template of contractions, of streams in tiles, or of nests."""

from __future__ import annotations

from codegen.lower.gpu.lower_contraction import lower_contraction
from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.lower.gpu.lower_stream import lower_stream
from codegen.plan.gpu.nest_region import nest_region
from ir.diagnostics import Kind, fail
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.verify import verify
from ir.plan.gpu import GpuContractionPlan, GpuStreamPlan
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan, GpuTilesPlan
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.region.region import Region


def lower(region: Region, core: PolyCore, plan: Plan, name: str) -> GpuKernel:
    """The verified kernel `name`.

    Raises:
        EqsatError: where the plan contradicts the region, or the templates do not cover it.
    """
    match plan:
        case GpuContractionPlan():
            kernel = lower_contraction(region, core, plan, name)
        case GpuStreamPlan():
            kernel = lower_stream(region, core, plan, name)
        case GpuPointsPlan() | GpuRowsPlan() | GpuTilesPlan():
            kernel = lower_gpu_nest(*nest_region(region, core), plan, name)
        case _:
            fail(Kind.UNKNOWN_TARGET, "lower", f"a plan for {plan.arch} on a GPU", at=region.name)
    verify(kernel)
    return kernel
