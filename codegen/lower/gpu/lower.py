"""A region's view and plan → a GPU kernel, by the template of contractions, of streams in tiles, of scatters, or of
nests."""

from __future__ import annotations

from codegen.lower.gpu.lower_contraction import lower_contraction
from codegen.lower.gpu.lower_nest import lower_gpu_nest
from codegen.lower.gpu.lower_scatter import lower_scatter
from codegen.lower.gpu.lower_stream import lower_stream
from codegen.plan.contraction_view import Contraction
from codegen.plan.fit_plan import TemplateView
from codegen.plan.region_loops import RegionLoops
from codegen.plan.scatter_view import ScatterView
from codegen.plan.stream_view import StreamView
from ir.diagnostics import Kind, fail
from ir.kernel.gpu.kernel import GpuKernel
from ir.kernel.gpu.verify import verify
from ir.plan.gpu import GpuContractionPlan, GpuStreamPlan
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan, GpuScatterPlan, GpuTilesPlan
from ir.plan.plan import Plan


def lower(view: TemplateView, plan: Plan, name: str) -> GpuKernel:
    """The verified kernel `name`. `codegen.plan.fit_plan` made the view.

    Raises:
        EqsatError: UnknownTarget where the plan is for a CPU.
    """
    match view, plan:
        case Contraction(), GpuContractionPlan():
            kernel = lower_contraction(view, plan, name)
        case StreamView(), GpuStreamPlan():
            kernel = lower_stream(view, plan, name)
        case ScatterView(), GpuScatterPlan():
            kernel = lower_scatter(view, plan, name)
        case RegionLoops(), GpuPointsPlan() | GpuRowsPlan() | GpuTilesPlan():
            kernel = lower_gpu_nest(view, plan, name)
        case _:
            fail(Kind.UNKNOWN_TARGET, "lower", f"a plan for {plan.arch} on a GPU", at=view.region.name)
    verify(kernel)
    return kernel
