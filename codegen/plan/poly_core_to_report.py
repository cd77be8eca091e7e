"""Poly Core and the plan → the report of seed 000 §7, made when somebody asks for it.

Dependences and halo are those of the region that the plan's template lowers: on a GPU a nest has reductions in place of
streams. Buffers, barriers and bank conflicts are those of the kernel that the plan makes.
"""

from __future__ import annotations

from codegen.poly.dependences import dependences
from codegen.poly.halo import halo
from codegen.poly.value_sites import ACCUMULATORS, outer_scope
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.poly.report import BankConflict, PolyReport
from ir.region.region import Region


def poly_report(region: Region, core: PolyCore, plan: Plan) -> PolyReport:
    """The report on a region whose Poly Core is `core`, and whose kernel `plan` makes."""
    from codegen.plan.fit_plan import fit_plan  # here, as a program that is loaded needs no planner
    from codegen.plan.gpu.plan_barriers import barriers
    from codegen.plan.plan_buffers import buffers
    from codegen.plan.region_loops import RegionLoops

    view = fit_plan(region, core, plan)
    if isinstance(view, RegionLoops):
        region, core = view.region, view.core
    kept = buffers(region, view, plan)
    return PolyReport(
        core=core,
        nested=nested_accumulators(region, core),
        halo=halo(region, core),
        dependences=dependences(region, core),
        buffers=tuple(planned.buffer for planned in kept),
        barriers=barriers(region, view, plan),
        bank_conflicts=tuple(
            BankConflict(planned.buffer.value, planned.apart) for planned in kept if planned.apart is not None
        ),
    )


def nested_accumulators(region: Region, core: PolyCore) -> dict[str, str]:
    """The accumulators that are computed inside the loops of another, each with the first such one."""
    accumulators, outer = {let.name for let in region.body if let.op.kind in ACCUMULATORS}, outer_scope(region)
    nested = [(site.value, site.scope) for site in core.sites if site.value in accumulators and site.scope != outer]
    return dict(reversed(nested))
