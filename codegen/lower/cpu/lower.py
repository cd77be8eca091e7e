"""A region's view and plan → a CPU kernel, by the template of contractions, of streams in tiles, of scatters, or of
nests."""

from __future__ import annotations

from codegen.lower.cpu.lower_contraction import lower_contraction
from codegen.lower.cpu.lower_nest import lower_nest
from codegen.lower.cpu.lower_scatter import lower_scatter
from codegen.lower.cpu.lower_stream import lower_stream
from codegen.plan.contraction_view import Contraction
from codegen.plan.fit_plan import TemplateView
from codegen.plan.region_loops import RegionLoops
from codegen.plan.scatter_view import ScatterView
from codegen.plan.stream_view import StreamView
from ir.diagnostics import Kind, fail
from ir.kernel.cpu.lowered_kernel import LoweredCpuKernel
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuScatterPlan, CpuStreamPlan
from ir.plan.plan import Plan


def lower(view: TemplateView, plan: Plan, name: str) -> LoweredCpuKernel:
    """The kernel with the C name `name`, and its packed constants. `codegen.plan.fit_plan` made the view.

    Raises:
        EqsatError: UnknownTarget where the plan is for a GPU.
    """
    match view, plan:
        case Contraction(), CpuContractionPlan():
            return lower_contraction(view, plan, name)
        case StreamView(), CpuStreamPlan():
            return lower_stream(view, plan, name)
        case ScatterView(), CpuScatterPlan():
            kernel = lower_scatter(view, plan, name)
            return LoweredCpuKernel(kernel, tuple(buffer.name for buffer in view.region.buffers))
        case RegionLoops(), CpuNestPlan():
            return LoweredCpuKernel(lower_nest(view, plan, name), tuple(buffer.name for buffer in view.region.buffers))
    fail(Kind.UNKNOWN_TARGET, "lower", f"a plan for {plan.arch} on a CPU", at=view.region.name)
