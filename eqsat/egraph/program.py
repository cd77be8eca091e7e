"""The egglog program of a set of rules: what is declared, and what runs in each phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from eqsat.egraph.egglog_text import (
    ANALYSES,
    Marks,
    clause_text,
    filling,
    joined_tables,
    rule_text,
    schema,
    table_text,
    trace_text,
)
from eqsat.egraph.engine import CALL
from ir.rule import Clause, Rule
from ir.term import CTORS, App, EView, PView, subterms
from rules import PASSING, PHASES
from rules import analyses as known


class Phase(NamedTuple):
    """The ruleset of a phase, that of what its rules must know before, and the families in it."""

    ruleset: str
    known: str
    families: tuple[str, ...]


def schedule(rules: Sequence[Rule], phases: Sequence[Sequence[str]]) -> Iterator[Phase]:
    """The phases; one that adds no family is left out."""
    present = list(dict.fromkeys(rule.family for rule in rules))
    named = {family for phase in phases for family in phase}
    others = [family for family in present if family not in named]
    joined: list[str] = []
    for position, phase in enumerate(phases):
        last = position == len(phases) - 1
        news = [family for family in (*phase, *(others if last else ())) if family in present]
        if news:
            joined = [family for family in joined if family not in PASSING] + news
            yield Phase(f"phase{position}", f"known{position}", tuple(joined))


def program(
    rules: Sequence[Rule], phases: Sequence[Sequence[str]], live: Sequence[Rule], traced: bool = False
) -> list[str]:
    """The schedule of all rules, and the text of those that may fire; `traced` keeps their matches."""
    families = list(dict.fromkeys(rule.family for rule in rules))
    lines = schema(CTORS.values(), known.ANALYSES, CALL)
    lines += [f"(ruleset {name})" for name in (ANALYSES, *map(_ruleset, families))]
    queries: list[Rule | Clause] = [*known.CLAUSES, *live]
    tables = {table.name: table for query in queries for table in joined_tables(query)}
    lines += [line for table in tables.values() for line in table_text(table)]
    lines += [clause_text(clause) for clause in known.CLAUSES]
    lines += [trace_text(rule) for rule in live if traced]
    lines += [rule_text(rule, _ruleset(rule.family), _marks(rule), traced) for rule in live]
    for phase in schedule(rules, phases):
        queries = [*known.CLAUSES, *(rule for rule in live if rule.family in phase.families)]
        filled = dict.fromkeys(filling(table) for query in queries for table in joined_tables(query))
        lines.append(_combined(phase.known, (ANALYSES, *filled)))
        lines.append(_combined(phase.ruleset, map(_ruleset, phase.families)))
    return lines


def program_text(rules: Sequence[Rule], phases: Sequence[Sequence[str]] = PHASES) -> str:
    """The whole egglog program of a set of rules, for people."""
    return "\n".join(program(rules, phases, rules))


def _marks(rule: Rule) -> Marks:
    """What holds for what the rule builds; it makes no parts of values where it moves a view."""
    moves = any(isinstance(each, App) and each.ctor in (PView, EView) for each in subterms(rule.lhs))
    return Marks(() if moves else known.PARTS, known.PASSING if rule.passing else known.STORED, known.STORED)


def _combined(name: str, rulesets: Iterable[str]) -> str:
    return f"(unstable-combined-ruleset {name} {' '.join(rulesets)})"


def _ruleset(family: str) -> str:
    return f"family_{family}"
