"""A plan that a caller wrote, checked and priced: the sizes are the caller's, the roundings are the program's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from eqsat.cost.pricing import PlanPricer
from eqsat.planning.choose_plan import STAGE
from ir.diagnostics import Kind, fail
from ir.plan.cpu import CpuNestPlan, StreamBlocks
from ir.plan.plan import HandPlan, Plan
from ir.pricer import Price, Work
from ir.region.region import Region
from ir.serde import from_builtins, to_builtins
from ir.target import Target

WorkOf = Callable[[Region, HandPlan], Work]
"""The work of a plan that fits the region; raises the EqsatError of the template's check where it does not."""


def price_plan(
    region: Region, plan: Plan, ranked: Sequence[Price], pricer: PlanPricer, work_of: WorkOf, target: Target
) -> Price:
    """The price of a caller's plan. ranked: the prices of the planner's plans of the region.

    Raises:
        EqsatError: InvalidOption for a plan of another template, for a field of another type, and for a plan that takes
            the terms of sums in another order than the program allows; UnknownTarget for a plan of another machine;
            ResourceExceeded where the workspace of a task does not fit; the errors of the template's check.
    """
    for price in ranked:
        if msgspec.structs.replace(price.plan, notes=plan.notes) == plan:
            return price
    rivals = [price.plan for price in ranked]
    first = rivals[0]
    if type(plan) is not type(first):
        message = f"the kernel runs by a {type(first).__name__}, and the plan is a {type(plan).__name__}"
        fail(Kind.INVALID_OPTION, STAGE, message, at=region.name, hint=_HINT)
    if not isinstance(plan, HandPlan):
        message = f"a {type(plan).__name__} cannot be written by hand"
        fail(Kind.INVALID_OPTION, STAGE, message, at=region.name, hint="one of program.plans(kernel)")
    _check_types(region, plan)
    if plan.arch != target.arch:
        fail(Kind.UNKNOWN_TARGET, STAGE, f"the plan is for {plan.arch}, the program for {target.arch}", at=region.name)
    orders = {getattr(rival, "ordered", False) for rival in rivals}
    if getattr(plan, "ordered", False) not in orders:
        message = f"ordered is {not next(iter(orders))}: the program's exactness decides the order of sums"
        fail(Kind.INVALID_OPTION, STAGE, message, at=region.name, hint=f"ordered={next(iter(orders))}")
    _check_registers(region, plan)
    work = work_of(region, plan)
    if work.scratch > MOST_SCRATCH:
        message = f"a task of the plan needs {work.scratch:,} bytes of workspace, and {MOST_SCRATCH:,} are the most"
        fail(Kind.RESOURCE_EXCEEDED, STAGE, message, at=region.name, hint="smaller blocks")
    return pricer.price_plan(region, plan, work, rivals)


MOST_SCRATCH = 1 << 30
"""Bytes of workspace of one task, which is far more than pays."""
MOST_REGISTERS = 128
"""Vector registers of a register tile: four times those of AVX-512. The text of a kernel grows with the tile."""
_HINT = "msgspec.structs.replace(program.plans(kernel)[0].plan, …)"


def _check_registers(region: Region, plan: HandPlan) -> None:
    """Raises EqsatError, ResourceExceeded, for a register tile that no machine has, whose text would not end."""
    if isinstance(plan, CpuNestPlan):
        return
    blocks = plan.blocks
    dot = blocks.dot if isinstance(blocks, StreamBlocks) else blocks.algorithm == "dot"
    registers = blocks.mr * blocks.nr // (1 if dot else max(blocks.lanes, 1))
    if registers > MOST_REGISTERS:
        message = f"a register tile of {blocks.mr} × {blocks.nr} takes {registers} registers"
        fail(Kind.RESOURCE_EXCEEDED, STAGE, message, at=region.name, hint=f"mr × nr of {MOST_REGISTERS} registers")


def _check_types(region: Region, plan: Plan) -> None:
    """A plan that Python made may hold any values."""
    try:
        same = from_builtins(to_builtins(plan), type(plan))
    except (msgspec.ValidationError, TypeError, NotImplementedError, ValueError) as error:
        fail(Kind.INVALID_OPTION, STAGE, f"a field of the plan has another type: {error}", at=region.name)
    if same != plan:
        fail(Kind.INVALID_OPTION, STAGE, "a field of the plan has another type", at=region.name)
