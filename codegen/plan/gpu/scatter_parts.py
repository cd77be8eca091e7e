"""How the threads of a GPU share the positions of a scatter, and the check that a plan fits the region."""

from __future__ import annotations

import math

from codegen.plan.plan_check import check_gpu, fail_malformed
from codegen.plan.scatter_view import ScatterView
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import MAX_THREADS
from ir.plan.gpu_nest import GpuScatterPlan


def owners(view: ScatterView, plan: GpuScatterPlan) -> tuple[int, ...]:
    """The box of the threads: the shape of the result, with the parts in place of the positions."""
    return (*view.shape[: view.axis], plan.parts, *view.shape[view.axis + 1 :])


def blocks_of(view: ScatterView, plan: GpuScatterPlan) -> int:
    """Blocks of a launch."""
    return max(1, -(-math.prod(owners(view, plan)) // plan.threads))


def check_scatter_plan(view: ScatterView, plan: GpuScatterPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan, MalformedGraph where the
    plan contradicts the region."""
    check_gpu(plan.arch)
    if not 1 <= plan.parts <= max(1, view.slots):
        fail_malformed(view, f"{plan.parts} parts of {view.slots} positions")
    if plan.threads < 1 or plan.threads % WARP_LANES or plan.threads > MAX_THREADS:
        fail_malformed(view, f"a block of {plan.threads} threads: whole warps, at most {MAX_THREADS}")
