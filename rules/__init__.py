"""The rewrite rules, one family a file, and the phases in which families run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ir.diagnostics import Kind, fail
from ir.rule import Exactness, Rule
from rules import broadcast, casts, contraction, fusion, movement, rows

FAMILIES: Mapping[str, tuple[Rule, ...]] = {
    module.FAMILY: module.RULES for module in (movement, casts, broadcast, contraction, fusion, rows)
}
"""Every family by name."""

RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES.values() for rule in family)

PHASES: tuple[tuple[str, ...], ...] = (("movement", "casts", "broadcast"), ("contraction",), ("fusion", "rows"))
"""The families that join at each phase; those of the phases before stay. Any other family joins the last."""


def select(families: Iterable[str] | None = None, exactness: Exactness = Exactness.ROUNDING) -> tuple[Rule, ...]:
    """The rules of these families (None: all) that are no less exact than `exactness`.

    Raises:
        EqsatError: InvalidOption, for a family that does not exist.
    """
    names = tuple(FAMILIES) if families is None else tuple(families)
    if unknown := [name for name in names if name not in FAMILIES]:
        fail(Kind.INVALID_OPTION, "rules", f"there is no family {unknown[0]!r}", hint=", ".join(FAMILIES))
    return tuple(rule for name in names for rule in FAMILIES[name] if rule.exactness <= exactness)
