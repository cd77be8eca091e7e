"""A plan → where its kernel keeps each value between the producer and the readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from codegen.plan.fit_plan import TemplateView
from codegen.plan.gpu.contraction_shared import operand_ring
from codegen.plan.gpu.nest_tiling import crossing_reads
from codegen.plan.region_loops import RegionLoops
from codegen.plan.scatter_view import ScatterView
from codegen.plan.stream_view import StreamView
from codegen.poly.value_sites import ACCUMULATORS
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuStreamPlan
from ir.plan.gpu import ContractionTile, GpuContractionPlan, GpuStreamPlan, Staging
from ir.plan.gpu_nest import GpuRowsPlan, GpuTilesPlan
from ir.plan.plan import Plan
from ir.poly.report import Apart, MinBuffer
from ir.region.region import Region


class PlannedBuffer(NamedTuple):
    """A buffer, and how its lines are kept out of each other's banks, where they would meet there."""

    buffer: MinBuffer
    apart: Apart | None = None


def buffers(region: Region, view: TemplateView, plan: Plan) -> tuple[PlannedBuffer, ...]:
    """Accumulators first, then the buffers that the plan keeps, the other values, the outputs. A value that the plan
    does not keep is in registers where it is read."""
    kept = {planned.buffer.value: planned for planned in _kept_buffers(region, view, plan)}
    outputs = {output.name: PlannedBuffer(MinBuffer(output.name, "gmem")) for output in region.outputs}
    names = dict.fromkeys((*_accumulators(region), *kept, *(let.name for let in region.body), *outputs))
    return tuple({**outputs, **kept}.get(name) or PlannedBuffer(MinBuffer(name, "reg")) for name in names)


def _accumulators(region: Region) -> list[str]:
    return [let.name for let in region.body if let.op.kind in ACCUMULATORS]


def _kept_buffers(region: Region, view: TemplateView, plan: Plan) -> Iterator[PlannedBuffer]:
    """The buffers that a plan keeps elsewhere than in registers."""
    match plan, view:
        case CpuContractionPlan(), _:
            for name in () if plan.held else _accumulators(region):  # tiles of sums are put away for the epilogue
                yield PlannedBuffer(MinBuffer(name, "stack"))
            for operand in plan.operands:
                yield PlannedBuffer(MinBuffer(operand.tensor, "gmem" if operand.place == "memory" else operand.place))
        case CpuStreamPlan(), StreamView():
            for name in (*_accumulators(region), view.roles.score):
                yield PlannedBuffer(MinBuffer(name, "stack"))
            for packed in plan.packed:
                yield PlannedBuffer(MinBuffer(packed.tensor, "packed"))
        case _, ScatterView():
            yield PlannedBuffer(MinBuffer(view.scatter.name, "gmem"))
        case CpuNestPlan(), _:
            for row in plan.kept:
                yield PlannedBuffer(MinBuffer(row.value, "stack"))
        case GpuContractionPlan(), _:
            for tensor, way in zip(plan.operands, plan.tile.stagings, strict=True):
                yield _ring(tensor, plan.tile, way, plan.tile.stages)
        case GpuStreamPlan(), _:
            scores = plan.tile.scores
            if plan.scored is not None:
                yield _ring(plan.scored[0], scores, scores.lhs, 1)
                yield _ring(plan.scored[1], scores, scores.rhs, scores.stages)
            for tensor, tile in zip(plan.values, plan.tile.sums, strict=bool(plan.values)):
                yield _ring(tensor, tile, tile.rhs, tile.stages)
        case GpuRowsPlan(), _:
            for name in plan.rows.shared:
                yield PlannedBuffer(MinBuffer(name, "smem_ring"))
        case GpuTilesPlan(), RegionLoops():
            for access in crossing_reads(view, plan.tiles.axes):
                yield PlannedBuffer(MinBuffer(access.buffer, "smem_ring"), "pad")
        case _:
            pass


def _ring(tensor: str, tile: ContractionTile, way: Staging, stages: int) -> PlannedBuffer:
    """An operand's ring of tiles, as `codegen.plan.gpu.contraction_shared` lays it out."""
    ring = operand_ring(tensor, tile, way, 0, stages)
    apart: Apart | None = "swizzle" if ring.swizzle else "pad" if ring.pitch else None
    return PlannedBuffer(MinBuffer(tensor, "smem_ring", stages), apart)
