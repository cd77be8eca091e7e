"""A region and a plan of it → the view of the region that the plan's template lowers.

Every plan is refused here or not at all: a lowering takes the view and the plan, and refuses nothing.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar, overload

from codegen.plan.contraction_view import Contraction, contraction_of
from codegen.plan.cpu.contraction_tiling import check_contraction_plan as check_cpu_contraction
from codegen.plan.cpu.cpu_contraction import cpu_contraction_of
from codegen.plan.cpu.nest_tiling import check_nest_plan as check_cpu_nest
from codegen.plan.cpu.scatter_tiling import check_scatter_plan as check_cpu_scatter
from codegen.plan.cpu.stream_tiling import check_stream_plan as check_cpu_stream
from codegen.plan.gpu.contraction_tiling import check_contraction_plan as check_gpu_contraction
from codegen.plan.gpu.nest_region import nest_region
from codegen.plan.gpu.nest_tiling import GpuNestPlan
from codegen.plan.gpu.nest_tiling import check_nest_plan as check_gpu_nest
from codegen.plan.gpu.scatter_parts import check_scatter_plan as check_gpu_scatter
from codegen.plan.gpu.stream_parts import check_parts
from codegen.plan.gpu.stream_tiling import check_stream_plan as check_gpu_stream
from codegen.plan.plan_check import STAGE
from codegen.plan.region_loops import RegionLoops
from codegen.plan.scatter_view import ScatterView, scatter_view
from codegen.plan.stream_view import StreamView, stream_view
from ir.diagnostics import Kind, fail
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuScatterPlan, CpuStreamPlan
from ir.plan.gpu import GpuContractionPlan, GpuStreamPlan
from ir.plan.gpu_nest import GpuScatterPlan
from ir.plan.plan import GpuPlan, Plan
from ir.poly.core import PolyCore
from ir.region.region import Region

TemplateView: TypeAlias = Contraction | StreamView | ScatterView | RegionLoops
"""A region as a template sees the region: a matrix product, streams in tiles, a scatter, or loops over the outputs."""
V = TypeVar("V", Contraction, StreamView, ScatterView)


@overload
def fit_plan(region: Region, core: PolyCore, plan: CpuContractionPlan | GpuContractionPlan) -> Contraction: ...
@overload
def fit_plan(region: Region, core: PolyCore, plan: CpuStreamPlan | GpuStreamPlan) -> StreamView: ...
@overload
def fit_plan(region: Region, core: PolyCore, plan: CpuScatterPlan | GpuScatterPlan) -> ScatterView: ...
@overload
def fit_plan(region: Region, core: PolyCore, plan: CpuNestPlan | GpuNestPlan) -> RegionLoops: ...
def fit_plan(region: Region, core: PolyCore, plan: Plan) -> TemplateView:
    """The view of the region that the plan's template lowers. On a GPU, a nest's view has reductions in place of
    streams.

    Raises:
        EqsatError: UnsupportedOp where the region is no kernel, or where the plan's template does not cover the region;
            for boxes of larger tensors on a GPU;
            the errors of the template's check where the plan does not fit the region.
    """
    _check_legal(region, core)
    if isinstance(plan, GpuPlan):
        _check_frames(region)
    match plan:
        case CpuContractionPlan():
            product = _require(region, cpu_contraction_of(region, core, vector=plan.vector, ordered=plan.ordered))
            check_cpu_contraction(product, plan)
            return product
        case GpuContractionPlan():
            product = _require(region, contraction_of(region, core, ordered=plan.ordered))
            check_gpu_contraction(product, plan)
            return product
        case CpuStreamPlan():
            streams = _require(region, stream_view(region, core, together=plan.together))
            check_cpu_stream(streams, plan)
            return streams
        case GpuStreamPlan():
            streams = _require(region, stream_view(region, core, together=plan.together))
            check_gpu_stream(streams, plan)
            check_parts(streams, plan)
            return streams
        case CpuScatterPlan():
            scatter = _require(region, scatter_view(region, core))
            check_cpu_scatter(scatter, plan)
            return scatter
        case GpuScatterPlan():
            scatter = _require(region, scatter_view(region, core))
            check_gpu_scatter(scatter, plan)
            return scatter
        case CpuNestPlan():
            loops = _nest(region, core, plan)
            check_cpu_nest(loops, plan)
            return loops
        case _:
            nest, nest_core = nest_region(region, core)
            _check_legal(nest, nest_core)
            loops = _nest(nest, nest_core, plan)
            check_gpu_nest(loops, plan)
            return loops


def _check_legal(region: Region, core: PolyCore) -> None:
    if not core.legal:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"region {region.name} is no kernel: {core.reason}", at=region.name)


def _check_frames(region: Region) -> None:
    for buffer in region.buffers:
        if buffer.memref.box_of is not None:
            message = f"GPU kernels take whole tensors, no boxes: {buffer}"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=region.name)


def _require(region: Region, view: V | None) -> V:
    """The view, which a template has if it covers the region."""
    if view is None:
        message = "the region holds no contraction, no streams or no scatter that the plan's template covers"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=region.name)
    return view


def _nest(region: Region, core: PolyCore, plan: CpuNestPlan | GpuNestPlan) -> RegionLoops:
    for kind in ("contraction", "scatter"):
        if any(let.op.kind == kind for let in region.body):
            fail(Kind.UNSUPPORTED_OP, STAGE, f"a {kind} has a template of its own, no nest", at=region.name)
    return RegionLoops(region, core, plan.ordered)
