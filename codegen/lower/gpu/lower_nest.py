"""A region's loops and a GpuNestPlan → a GPU kernel, for every region without a contraction."""

from __future__ import annotations

from codegen.lower.gpu.lower_points import lower_points
from codegen.lower.gpu.lower_rows import lower_rows
from codegen.lower.gpu.lower_tiles import lower_tiles
from codegen.lower.gpu.unread import without_unread
from codegen.plan.gpu.nest_tiling import GpuNestPlan
from codegen.plan.region_loops import RegionLoops
from ir.kernel.gpu.kernel import GpuKernel
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan, GpuTilesPlan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.region import Region


def lower_gpu_nest(loops: RegionLoops, plan: GpuNestPlan, name: str = "eq_k") -> GpuKernel:
    """The kernel `name` that runs a region's loops by a plan that fits."""
    match plan:
        case GpuRowsPlan():
            ev, body = lower_rows(loops, plan.rows, approximate=plan.approximate)
        case GpuTilesPlan():
            ev, body = lower_tiles(loops, plan.tiles, approximate=plan.approximate)
        case GpuPointsPlan():
            ev, body = lower_points(loops, plan.points, approximate=plan.approximate)
    writer = ev.writer
    return without_unread(writer.kernel(name, plan.kernel_arch, ev.params(), body, _comment(loops.region, plan)))


def _comment(region: Region, plan: GpuNestPlan) -> str:
    """The comment above the kernel in the text: the region, then the schedule."""
    schedule = plan_to_schedule(plan)
    choices = ", ".join(f"{key} {value}" for key, value in schedule.algo_choice.items())
    lines = [str(region), f"plan {schedule.arch}: {choices}, tile {list(schedule.tile)}"]
    if schedule.vectorize:
        lines[-1] += f", {schedule.vectorize.width} elements at once along {schedule.vectorize.axis}"
    if schedule.predicate_tail:
        lines[-1] += f", tails along {', '.join(schedule.predicate_tail)}"
    if isinstance(plan, GpuRowsPlan) and plan.rows.split > 1:
        lines[-1] += f", {plan.rows.split} blocks a row"
    return "\n".join([*lines, *schedule.notes])
