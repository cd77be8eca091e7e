"""The egglog program of a set of rules: its declarations, and the rules that run in each phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from eqsat.egraph.egglog_text import (
    ANALYSES,
    Marks,
    clause_text,
    joined_tables,
    rule_text,
    schema,
    table_text,
)
from eqsat.egraph.engine import CALL
from ir.term.language import CTORS, App, EView, Gather, PGather, PView, subterms
from ir.term.rule import Clause, Rule
from rules import PASSING, PHASES
from rules import analyses as known


class PhaseRules(NamedTuple):
    """The ruleset of a phase, and the families that run in it."""

    ruleset: str
    families: tuple[str, ...]


def schedule(rules: Sequence[Rule], phases: Sequence[Sequence[str]]) -> Iterator[PhaseRules]:
    """The phases; a phase that adds no family is left out."""
    present = list(dict.fromkeys(rule.family for rule in rules))
    named = {family for phase in phases for family in phase}
    others = [family for family in present if family not in named]
    joined: list[str] = []
    for position, phase in enumerate(phases):
        last = position == len(phases) - 1
        new = [family for family in (*phase, *(others if last else ())) if family in present]
        if new:
            joined = [family for family in joined if family not in PASSING] + new
            yield PhaseRules(f"phase{position}", tuple(joined))


def declarations(phases: Sequence[PhaseRules]) -> list[str]:
    """The declarations of the language and of the rulesets, without rules."""
    families = dict.fromkeys(family for phase in phases for family in phase.families)
    lines = schema(CTORS.values(), known.ANALYSES, CALL)
    lines += [f"(ruleset {name})" for name in (ANALYSES, *map(ruleset_of, families))]
    return [*lines, *(combine_rulesets(phase.ruleset, map(ruleset_of, phase.families)) for phase in phases)]


def write_rule(rule: Rule, ruleset: str, traced: bool = False) -> str:
    """The text of a rule in a ruleset; `traced` keeps its matches in the rule's match table."""
    return rule_text(rule, ruleset, _marks(rule), traced)


def program(rules: Sequence[Rule], phases: Sequence[Sequence[str]] = PHASES) -> list[str]:
    """The whole program of a set of rules."""
    queries: tuple[Rule | Clause, ...] = (*known.CLAUSES, *rules)
    tables = {table.name: table for query in queries for table in joined_tables(query)}
    return [
        *declarations(tuple(schedule(rules, phases))),
        *(line for table in tables.values() for line in table_text(table)),
        *map(clause_text, known.CLAUSES),
        *(write_rule(rule, ruleset_of(rule.family)) for rule in rules),
    ]


def program_text(rules: Sequence[Rule], phases: Sequence[Sequence[str]] = PHASES) -> str:
    """The whole egglog program of a set of rules, for people."""
    return "\n".join(program(rules, phases))


def combine_rulesets(name: str, rulesets: Iterable[str]) -> str:
    """The declaration of a ruleset that consists of others."""
    return f"(unstable-combined-ruleset {name} {' '.join(rulesets)})"


def _marks(rule: Rule) -> Marks:
    """The facts that hold for nodes that the rule builds. A rule that moves a view builds no new parts of values."""
    moves = any(isinstance(part, App) and part.ctor in (PView, EView, Gather, PGather) for part in subterms(rule.lhs))
    opened = (known.Open,) if rule.opens else ()
    stored = known.PASSING if rule.passing else known.STORED
    return Marks(() if moves else known.PARTS, (*stored, *opened), (*known.STORED, *opened))


def ruleset_of(family: str) -> str:
    """The ruleset of a family's rules."""
    return f"family_{family}"
