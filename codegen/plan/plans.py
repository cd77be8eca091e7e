"""The candidate plans of a region, each with the work that it makes."""

from __future__ import annotations

from codegen.plan.plan_contraction import contraction_plans
from codegen.plan.plan_nest import nest_plans
from ir.plan import Plan
from ir.poly_core import PolyCore
from ir.pricer import Work
from ir.region import Region
from ir.target import Target


def plans(region: Region, core: PolyCore, target: Target) -> list[tuple[Plan, Work]]:
    """Plans from the contraction template or of a loop nest; none where the region fits neither."""
    if core.contraction is not None:
        return contraction_plans(region, core, target)
    return nest_plans(region, core, target)
