"""What a template does with a Plan, and the refusal of all else: no field of a plan is passed over."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

from ir.diagnostics import Kind, fail
from ir.plan import Plan
from ir.target import LANES

RUNNERS = ("thread", "serial")
"""What may run an axis piece on a CPU: tasks of the pool, or a loop; serial is also what is not bound."""


class TemplateChoices(msgspec.Struct, frozen=True):
    """The values that a template knows, by key (None: any), the pieces that it can bind, and whether it can keep values
    on chip."""

    algo_choice: Mapping[str, Collection[str] | None]
    layout_hints: Mapping[str, Collection[str | bool | int] | None]
    bind: Collection[str]
    keeps_rows: bool = False


def check_choices(plan: Plan, choices: TemplateChoices, stage: str) -> None:
    """Raises EqsatError: UnsupportedOp for a choice that the template does not know, UnknownTarget for another
    machine's plan."""
    if plan.arch not in LANES:
        fail(Kind.UNKNOWN_TARGET, stage, f"a plan for {plan.arch} on a CPU", hint=", ".join(LANES))
    if plan.stages != 1:
        fail(Kind.UNSUPPORTED_OP, stage, f"{plan.stages} stages: a CPU's loads need no pipeline", hint="stages=1")
    if plan.local_edges and not choices.keeps_rows:
        edges = ", ".join(f"{each.src} → {each.dst}" for each in plan.local_edges)
        fail(Kind.UNSUPPORTED_OP, stage, f"buffers between values are the template's own choice: {edges}")
    check_open_fields(plan, choices, stage, RUNNERS)


def check_open_fields(plan: Plan, choices: TemplateChoices, stage: str, runners: Collection[str]) -> None:
    """Raises EqsatError: UnsupportedOp for a key or value that the template does not know in a field that is open to
    every template; `runners` are what may run an axis piece."""
    _known("algo_choice", plan.algo_choice, choices.algo_choice, stage)
    _known("layout_hints", plan.layout_hints, choices.layout_hints, stage)
    _known("bind", plan.bind, dict.fromkeys(choices.bind, runners), stage)


def rows_by_columns(text: str, name: str, stage: str, at: str) -> tuple[int, int]:
    """The sizes that the field `name` of a plan gives as "64x32".

    Raises:
        EqsatError: MalformedGraph for any other text, at the region `at`.
    """
    shape = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if shape is None:
        fail(Kind.MALFORMED_GRAPH, stage, f"{name} {text!r} is not of the form ROWSxCOLUMNS", at=at)
    return int(shape[1]), int(shape[2])


def runs_parallel(plan: Plan, piece: str) -> bool:
    """Whether an axis piece is bound to threads."""
    return plan.bind.get(piece) == "thread"


def _known(
    field: str,
    given: Mapping[str, str | bool | int],
    known: Mapping[str, Collection[str | bool | int] | None],
    stage: str,
) -> None:
    for key, value in given.items():
        allowed = known.get(key, ())
        if allowed is not None and value not in allowed:
            fail(
                Kind.UNSUPPORTED_OP,
                stage,
                f"this template knows no {field} {key}: {value}",
                hint="; ".join(f"{name}: {', '.join(map(str, each or ['any']))}" for name, each in known.items()),
            )
