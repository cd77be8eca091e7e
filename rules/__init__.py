"""The rewrite rules, one family a file, and the phases in which families run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches

from ir.diagnostics import Kind, fail
from ir.term.rule import Exactness, Rule
from rules import (
    algebra,
    broadcast,
    casts,
    centring,
    contraction,
    distribution,
    elementary,
    enlarging,
    epilogues,
    fusion,
    gathers,
    indices,
    logic,
    merging,
    movement,
    products,
    quantized,
    reductions,
    rows,
    scaling,
    stacking,
    streams,
    winograd,
    zero_points,
)

_PHASES = (
    (movement, gathers, casts, broadcast),
    (algebra, elementary, logic, indices),
    (contraction, reductions, products, distribution, scaling, centring, quantized, zero_points),
    (enlarging, merging, stacking),
    (winograd,),
    (fusion, epilogues, rows, streams),
)
FAMILIES: Mapping[str, tuple[Rule, ...]] = {family.FAMILY: family.RULES for phase in _PHASES for family in phase}
"""The rules of every family, by the family's name."""

RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES.values() for rule in family)

PHASES: tuple[tuple[str, ...], ...] = tuple(tuple(family.FAMILY for family in phase) for phase in _PHASES)
"""The families that join at each phase. A family runs from its phase on, or in its phase alone if it is `PASSING`. A
family of a caller joins the last phase."""

PASSING = frozenset(
    {
        *("algebra", "elementary", "logic", "indices"),
        *("reductions", "products", "distribution", "centring", "quantized", "zero_points"),
        *("enlarging", "merging", "stacking", "winograd"),
    }
)
"""Families that end with their phase: later phases only move the terms that these families have seen."""

ORDINARY = ("movement", "gathers", "casts", "broadcast", "contraction", "fusion", "epilogues")
"""The families of ordinary fusion, which every compiler does: movements are merged, products are recognised, and
elementwise ops are fused with their producers."""


def select(names: Iterable[str] | None = None, exactness: Exactness = Exactness.ROUNDING) -> tuple[Rule, ...]:
    """The rules that a list of names selects, without those above the level `exactness`.

    names: families to use (None: all); `-name` leaves out a family or a rule; `name@digest` is a caller's rule that
    `rules.users.admit` has checked. A list without families starts from all families. An empty list selects no rule.

    Raises:
        EqsatError: InvalidOption, for a name of no family and no rule.
    """
    listed = tuple(FAMILIES) if names is None else tuple(dict.fromkeys(names))
    left_out = {name[1:] for name in listed if name.startswith("-")}
    own = _find_all_admitted([name for name in listed if "@" in name])
    families = [name for name in listed if not name.startswith("-") and "@" not in name]
    _check_names(families, left_out - {name for rule in own for name in (rule.name, rule.family)})
    if listed and not families:
        families = list(FAMILIES)
    chosen = (*(rule for name in families for rule in FAMILIES[name]), *own)
    return tuple(rule for rule in chosen if not {rule.name, rule.family} & left_out and rule.exactness <= exactness)


def rule_named(name: str) -> Rule:
    """The rule of that name. Raises EqsatError, InvalidOption, for a name of no rule."""
    rule_of_name = next((rule for rule in RULES if rule.name == name), None)
    if rule_of_name is None:
        near = get_close_matches(name, [rule.name for rule in RULES], 3)
        hint = ", ".join(near) or "`eqsat rules` lists them"
        fail(Kind.INVALID_OPTION, "rules", f"there is no rule {name!r}", hint=hint)
    return rule_of_name


def _find_all_admitted(references: Sequence[str]) -> tuple[Rule, ...]:
    """A caller's rules. Raises EqsatError, InvalidOption, where two have one name."""
    if not references:
        return ()
    from rules.users import find_admitted

    own = tuple(map(find_admitted, references))
    names = [rule.name for rule in own]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        fail(Kind.INVALID_OPTION, "rules", f"two rules are named {twice[0]}", hint="give one another name")
    return own


def _check_names(families: Sequence[str], left_out: Collection[str]) -> None:
    if unknown := [name for name in families if name not in FAMILIES]:
        fail(Kind.INVALID_OPTION, "rules", f"there is no family {unknown[0]!r}", hint=", ".join(FAMILIES))
    known = [*FAMILIES, *(rule.name for rule in RULES)]
    for name in sorted({*left_out} - {*known}):
        hint = ", ".join(get_close_matches(name, known, 3) or FAMILIES)
        fail(Kind.INVALID_OPTION, "rules", f"there is no family and no rule {name!r}", hint=hint)
