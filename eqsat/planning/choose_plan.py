"""The plan of a region that a caller names by some fields of its printed form, among the plans that the planner makes.

The planner's plans keep the order of sums and the roundings that the options ask for; so every choice computes what the
program computes. `eqsat.planning.plan_by_hand` takes other plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eqsat.planning.refinement import what_changed
from ir.diagnostics import Diagnostic, Kind, fail, note
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.plan.schedule import Schedule
from ir.pricer import Price

STAGE = "replan"
_SHOWN = 8
"""Values of a field that a hint names, at most."""


class PlanOption(NamedTuple):
    """A plan that the planner makes for a kernel: its printed form, its estimated time, and the plan itself, to be
    changed by `msgspec.structs.replace`."""

    schedule: Schedule
    estimated_ns: float
    plan: Plan


def options_of(ranked: Sequence[Price]) -> list[PlanOption]:
    """The plans of these prices, in the same order."""
    return [PlanOption(plan_to_schedule(price.plan), price.time_ns, price.plan) for price in ranked]


def choose_plan(ranked: Sequence[Price], fields: Mapping[str, Any], kernel: str) -> Price:
    """The first price whose plan has these fields. ranked: the prices of a region's plans, the best first.

    Raises:
        EqsatError: InvalidOption for no field, for a field that no plan has, and where no plan has all of them; the
            hint says which values there are.
    """
    known = [name for name in Schedule.__struct_fields__ if name != "notes"]
    unknown = [name for name in fields if name not in known]
    if unknown or not fields:
        message = f"a plan has no field {', '.join(unknown)}" if unknown else "no field of a plan is given"
        fail(Kind.INVALID_OPTION, STAGE, message, at=kernel, hint=", ".join(f"{name}=" for name in known))
    wanted = {name: _text(value) for name, value in fields.items()}
    plans = [(price, plan_to_schedule(price.plan)) for price in ranked]
    for price, schedule in plans:
        if all(_text(getattr(schedule, name)) == text for name, text in wanted.items()):
            return price
    asked = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    choices = {name: dict.fromkeys(_text(getattr(schedule, name)) for _, schedule in plans) for name in wanted}
    hint = "; ".join(f"{name} {' or '.join(list(texts)[:_SHOWN])}" for name, texts in choices.items())
    fail(Kind.INVALID_OPTION, STAGE, f"the planner makes no plan with {asked}", at=kernel, hint=hint, plans=len(plans))


def note_of_choice(before: Price, after: Price, region: str) -> Diagnostic:
    """Says that a caller chose the plan of a region."""
    changed = what_changed(before.plan, after.plan) or "the plan that it had"
    times = f"{before.time_ns / 1e3:.2f} → {after.time_ns / 1e3:.2f} µs estimated"
    return note(Kind.TUNED, STAGE, f"chosen by hand: {changed}; {times}", at=region)


def _text(value: object) -> str:
    """A field as a caller may write it: sizes as 64x32, names as m, n; whether given as a text or as a sequence."""
    if isinstance(value, tuple | list):
        has_sizes = all(isinstance(item, int) for item in value)
        return ("x" if has_sizes else ", ").join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {choice}" for key, choice in value.items())
    return str(value)
