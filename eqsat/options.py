"""What a caller may choose about a compilation; every field has a good default."""

from __future__ import annotations

import msgspec

from ir.diagnostics import Kind, fail
from ir.rule import Exactness


class Budget(msgspec.Struct, frozen=True):
    """Limits of saturation: e-nodes and iterations per phase, and seconds of wall clock (None: no limit).

    A stop by the wall clock is flagged in `program.stats`, since it may differ from run to run.
    """

    nodes: int = 400_000
    iterations: int = 200
    seconds: float | None = None


def exactness_named(wanted: str | Exactness) -> Exactness:
    """The level of that name. Raises EqsatError, UnsoundRule, for a name that is none."""
    if isinstance(wanted, Exactness):
        return wanted
    known = {level.name.lower(): level for level in Exactness}
    if wanted not in known:
        fail(Kind.UNSOUND_RULE, "options", f"there is no exactness {wanted!r}", hint=", ".join(known))
    return known[wanted]


class Options(msgspec.Struct, frozen=True):
    """The keywords of `optimize_and_compile`.

    rules: names of the families to use (None: all). exactness: the highest level allowed. extractor: by name.
    strict: refuse what the loader would insert.
    """

    rules: tuple[str, ...] | None = None
    exactness: Exactness = Exactness.ROUNDING
    extractor: str = "pareto"
    cost_model: str = "roofline"
    budget: Budget = Budget()
    strict: bool = False
