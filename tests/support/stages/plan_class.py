"""Plans of one class, where a test knows the template that made them."""

from __future__ import annotations

from typing import TypeVar

from ir.plan.plan import Plan

P = TypeVar("P")


def plan_of(plan: Plan, kind: type[P]) -> P:
    """The plan, checked to be of this class."""
    assert isinstance(plan, kind), f"{type(plan).__name__}, not {kind.__name__}"
    return plan
