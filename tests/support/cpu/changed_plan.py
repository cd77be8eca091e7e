"""Plans changed by hand."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ir.plan.cpu import CpuNestPlan, PlannedLoop
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule

P = TypeVar("P", bound=msgspec.Struct)


def with_fields(plan: P, **fields: object) -> P:
    """The plan with other fields; "blocks.bm" is a field of its field `blocks`."""
    whole = {name: value for name, value in fields.items() if "." not in name}
    for path, value in fields.items():
        name, _, field = path.partition(".")
        if field:
            part = whole.get(name, getattr(plan, name))
            assert isinstance(part, msgspec.Struct)
            whole[name] = with_fields(part, **{field: value})
    return msgspec.structs.replace(plan, **whole)


def sizes(plan: Plan) -> tuple[int, ...]:
    """The block sizes of a plan, in §8's order."""
    return plan_to_schedule(plan).tile


def tiled(plan: CpuNestPlan, *tiles: int) -> CpuNestPlan:
    """The plan with other blocks of its loops."""
    loops = (PlannedLoop(loop.axes, tile) for loop, tile in zip(plan.loops, tiles, strict=True))
    return msgspec.structs.replace(plan, loops=tuple(loops))


def nest(plan: CpuNestPlan) -> str:
    """The loops of a plan, outermost first: "i0 i1"."""
    return " ".join(loop.name for loop in plan.loops)


def along(plan: CpuNestPlan) -> str:
    """The loop that lanes run along; "" where they run along terms."""
    return "" if plan.lanes is None else plan.loops[plan.lanes].name
