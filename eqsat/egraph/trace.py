"""Everything that the rules matched in one saturation, as plain data: what explanations start from.

A trace costs a row per match, so saturation keeps one only when it is asked to; it changes nothing of the e-graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eqsat.egraph.egglog_text import match_table, recorded
from eqsat.egraph.engine import Row
from ir.term.language import Analysis, Term, Var, sort_of
from ir.term.rule import Rule


class Match(NamedTuple):
    """One match of a rule: its variables (classes of the view, texts, integers), and the texts that it bound."""

    rule: Rule
    binding: Mapping[str, int | str]
    texts: Mapping[Term, str]


@dataclass(frozen=True)
class Trace:
    """matches: those whose classes the view has, rule by rule; facts: analysis → the classes for which it holds, each
    with its text, or "" where the analysis has none."""

    matches: tuple[Match, ...]
    facts: Mapping[str, Mapping[int, str]]


def traced_tables(rules: Iterable[Rule], analyses: Iterable[Analysis]) -> Iterator[str]:
    """The tables that a trace is read from, beside those of a view."""
    yield from (match_table(rule.name) for rule in rules)
    yield from (each.name for each in analyses)


def read_trace(
    tables: Mapping[str, Sequence[Row]],
    number: Mapping[int | str, int],
    rules: Sequence[Rule],
    analyses: Sequence[Analysis],
) -> Trace:
    """The trace in an e-graph's tables; `number` gives the view's class of each raw one."""
    matches = [match for rule in rules for match in _matches(rule, tables.get(match_table(rule.name), ()), number)]
    facts = {each.name: _facts(tables.get(each.name, ()), number, each.valued) for each in analyses}
    return Trace(tuple(matches), facts)


def _matches(rule: Rule, rows: Sequence[Row], number: Mapping[int | str, int]) -> list[Match]:
    """The matches of one rule, in an order of their own."""
    terms = recorded(rule)
    plain = [not sort_of(each).is_class for each in terms]
    found = []
    for args, _ in rows:
        values = [arg if text else number.get(int(arg)) for arg, text in zip(args, plain, strict=True)]
        if None not in values:
            found.append(values)
    return [_match(rule, terms, values) for values in sorted(found)]


def _match(rule: Rule, terms: Sequence[Term], values: Sequence[int | str | None]) -> Match:
    binding: dict[str, int | str] = {}
    texts: dict[Term, str] = {}
    for term, value in zip(terms, values, strict=True):
        assert value is not None
        if isinstance(term, Var):
            binding[term.name] = value
        else:
            texts[term] = str(value)
    return Match(rule, binding, texts)


def _facts(rows: Sequence[Row], number: Mapping[int | str, int], valued: bool) -> Mapping[int, str]:
    found = {number[int(about)]: str(text) if valued else "" for (about,), text in rows if int(about) in number}
    return dict(sorted(found.items()))
