"""The work of a plan that no planner made."""

from __future__ import annotations

from codegen.plan.cpu.contraction_work import CpuContractionWork
from codegen.plan.cpu.kept_rows import kept_rows
from codegen.plan.cpu.nest_work import NestWork
from codegen.plan.cpu.stream_work import CpuStreamWork
from codegen.plan.fit_plan import fit_plan
from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuStreamPlan
from ir.plan.plan import HandPlan
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target


def work_of_plan(region: Region, core: PolyCore, plan: HandPlan, target: Target) -> Work:
    """The work of a plan of a region.

    Raises:
        EqsatError: as `fit_plan`, where the plan does not fit the region.
    """
    match plan:
        case CpuContractionPlan():
            return CpuContractionWork(fit_plan(region, core, plan), target).of(
                plan.blocks, plan.places, plan.order, held=plan.held
            )
        case CpuStreamPlan():
            return CpuStreamWork(fit_plan(region, core, plan), target).of(plan.blocks)
        case CpuNestPlan():
            loops = fit_plan(region, core, plan)
            return NestWork(loops, target, tuple(kept_rows(loops))).of(plan)
