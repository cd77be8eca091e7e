"""What a caller may choose about a compilation; every field has a good default."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eqsat.cost import ALL_TERMS, Terms
from ir.diagnostics import Kind, fail
from ir.rule import Exactness

STAGE = "options"
COST_MODELS = {"roofline": ALL_TERMS}
"""§11 by name; an ablation gives the `Terms` that shall count instead."""


class Budget(msgspec.Struct, frozen=True):
    """Limits of saturation: e-nodes in all, iterations per phase, and seconds of wall clock (None: no limit).

    A stop at a limit is a warning in `program.diagnostics`: what was found until then is used. One by the wall clock
    may differ from run to run.
    """

    nodes: int = 120_000
    iterations: int = 200
    seconds: float | None = None


class Options(msgspec.Struct, frozen=True):
    """The keywords of `optimize_and_compile` that decide which program comes out.

    rules: names of the families to use (None: all). exactness: the highest level allowed. extractor: by name.
    cost_model: the terms of §11 that count.
    """

    rules: tuple[str, ...] | None = None
    exactness: Exactness = Exactness.ROUNDING
    extractor: str = "pareto"
    cost_model: Terms = ALL_TERMS
    budget: Budget = Budget()


def checked_options(
    rules: Sequence[str] | None,
    exactness: str | Exactness,
    extractor: str,
    cost_model: str | Terms,
    budget: Budget | None,
) -> Options:
    """The options as they were asked for.

    Raises:
        EqsatError: UnsoundRule for an unknown family or level, UnsupportedOp for an unknown extractor, cost model
            or budget; each lists what there is.
    """
    from eqsat.cover import EXTRACTORS
    from rules import select

    families = None if rules is None else (rules,) if isinstance(rules, str) else tuple(rules)
    select(families)
    if extractor not in EXTRACTORS:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"there is no extractor {extractor!r}", hint=", ".join(EXTRACTORS))
    if not isinstance(cost_model, Terms) and cost_model not in COST_MODELS:
        hint = f"{', '.join(COST_MODELS)}, or eqsat.cost.Terms"
        fail(Kind.UNSUPPORTED_OP, STAGE, f"there is no cost model {cost_model!r}", hint=hint)
    terms = cost_model if isinstance(cost_model, Terms) else COST_MODELS[cost_model]
    return Options(families, exactness_named(exactness), extractor, terms, _checked_budget(budget))


def exactness_named(wanted: str | Exactness) -> Exactness:
    """The level of that name. Raises EqsatError, UnsoundRule, for a name that is none."""
    if isinstance(wanted, Exactness):
        return wanted
    known = {str(level): level for level in Exactness}
    if wanted not in known:
        fail(Kind.UNSOUND_RULE, STAGE, f"there is no exactness {wanted!r}", hint=", ".join(known))
    return known[wanted]


def checked_threads(wanted: int | None, default: int) -> int:
    """Threads of a call; None is `default`. Raises EqsatError, InputMismatch, unless it is at least one."""
    if wanted is None:
        return default
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        fail(Kind.INPUT_MISMATCH, STAGE, f"threads= is a number from 1 on, not {wanted!r}")
    return wanted


def _checked_budget(budget: Budget | None) -> Budget:
    if budget is None:
        return Budget()
    if not isinstance(budget, Budget) or min(budget.nodes, budget.iterations, budget.seconds or 0) < 0:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"{budget!r} is no budget", hint="eqsat.options.Budget(nodes=…, iterations=…)")
    return budget
