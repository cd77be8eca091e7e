"""The recipe of a saved program → an artifact whose texts are written anew."""

from __future__ import annotations

import msgspec

from eqsat.cost.pricing import PlanPricer
from eqsat.pipeline import write
from eqsat.planning.target_pricer import pricer_for
from eqsat.runtime.artifact import Artifact, Recipe
from ir.backend import Backend
from ir.diagnostics import Kind, fail
from ir.plan.plan import Plan
from ir.pricer import Price
from ir.region.region import Region


def rewrite(recipe: Recipe, backend: Backend) -> Artifact:
    """The program of a recipe that is not trusted, its texts written anew.

    A plan counts only as the choice of one that the planner itself makes for the region, which is the plan that is
    lowered; so no plan from a file reaches a template, and no price either.

    Raises:
        EqsatError: MalformedGraph for a plan that its region does not have; what the analyses find wrong with a region.
    """
    pricer = pricer_for(recipe.target, recipe.options)
    prices = tuple(
        _same_plan(call.region, price.plan, pricer)
        for call, price in zip(recipe.module.running, recipe.prices, strict=True)
    )
    return write(recipe, prices, backend)


def _same_plan(region: Region, wanted: Plan, pricer: PlanPricer) -> Price:
    """The region's own plan that is the wanted one, notes aside."""
    for price in pricer.rank(region):
        if msgspec.structs.replace(price.plan, notes=wanted.notes) == wanted:
            return price
    message = "the plan in the file is none that the planner makes for the region"
    fail(Kind.MALFORMED_GRAPH, "load", message, at=region.name)
