"""What kernels cost on a target: the prices of the plans that the code generator makes for them."""

from __future__ import annotations

from functools import partial

from codegen.backends.backend_of import backend_of
from codegen.poly.analyse import analyse
from eqsat.cost.pricing import PlanPricer
from eqsat.options import Options
from ir.target import Target


def pricer_for(target: Target, options: Options) -> PlanPricer:
    """What kernels cost on a target."""
    planner = partial(backend_of(target).candidates, exactness=options.exactness, tf32=options.tf32)
    return PlanPricer(target, analyse, planner, options.cost_model, ordered=options.ordered)
