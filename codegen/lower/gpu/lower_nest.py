"""Region + Poly Core + Plan → GPU kernel, for every region without a contraction."""

from __future__ import annotations

from codegen.lower.gpu.lower_points import lower_points
from codegen.lower.gpu.lower_rows import lower_rows
from codegen.lower.gpu.lower_tile import lower_tile
from codegen.lower.gpu.unread import without_unread
from codegen.plan.gpu.nest_choices import points_of, rows_of, tiles_of
from codegen.plan.region_loops import RegionLoops
from ir.diagnostics import Kind, fail
from ir.gpu import GpuKernel
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.region import Region

STAGE = "gpu_nest"


def lower_gpu_nest(region: Region, core: PolyCore, plan: Plan, name: str = "eq_k") -> GpuKernel:
    """The kernel `name` that runs `region` as `plan` says.

    Raises:
        EqsatError: UnsupportedOp where the region holds what threads of a nest cannot compute; AlignmentMismatch where
            the plan promises a division that leaves a rest; MalformedGraph where it contradicts the region.
    """
    if not core.legal:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"region {region.name} is no kernel: {core.reason}", at=region.name)
    loops = RegionLoops(region, core, plan.ordered)
    match plan.algo_choice.get("nest"):
        case "rows":
            ev, body = lower_rows(loops, rows_of(loops, plan))
        case "tile":
            ev, body = lower_tile(loops, tiles_of(loops, plan))
        case _:
            ev, body = lower_points(loops, points_of(loops, plan))
    writer = ev.writer
    kernel = GpuKernel(
        name=name,
        arch=plan.arch,
        threads=writer.threads,
        grid=writer.grid,
        params=ev.params(),
        variables=tuple(writer.variables),
        body=tuple(body.statements),
        shared=tuple(writer.shared),
        registers=tuple(writer.registers),
        workspace=tuple(writer.workspace),
        comment=_comment(region, plan),
    )
    return without_unread(kernel)


def _comment(region: Region, plan: Plan) -> str:
    """What the text says above the kernel: the region, then the plan."""
    choices = ", ".join(f"{key} {value}" for key, value in plan.algo_choice.items())
    lines = [str(region), f"plan {plan.arch}: {choices}, tile {list(plan.tile)}"]
    if plan.vectorize:
        lines[-1] += f", {plan.vectorize.width} elements at once along {plan.vectorize.axis}"
    if plan.predicate_tail:
        lines[-1] += f", tails along {', '.join(plan.predicate_tail)}"
    if "split_k" in plan.layout_hints:
        lines[-1] += f", {plan.layout_hints['split_k']} blocks a row"
    return "\n".join([*lines, *plan.notes])
