"""All matches of one saturation as plain data, from which explanations are made.

A trace costs a row per match, so saturation keeps one only on request. It does not change the e-graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eqsat.egraph.egglog_text import match_table, trace_terms
from eqsat.egraph.engine import Row
from ir.term.language import Analysis, Term, Var, sort_of
from ir.term.rule import Rule


class Match(NamedTuple):
    """One match of a rule: the values of its variables (classes of the view, texts, integers), and computed texts."""

    rule: Rule
    binding: Mapping[str, int | str]
    texts: Mapping[Term, str]


@dataclass(frozen=True)
class Trace:
    """matches: rule by rule, of classes that the view has. facts: for each analysis the classes for which it holds,
    with its text, or "" if the analysis has no texts."""

    matches: tuple[Match, ...]
    facts: Mapping[str, Mapping[int, str]]


def traced_tables(rules: Iterable[Rule], analyses: Iterable[Analysis]) -> Iterator[str]:
    """The tables that a trace is read from, in addition to those of a view."""
    yield from (match_table(rule.name) for rule in rules)
    yield from (analysis.name for analysis in analyses)


def read_trace(
    tables: Mapping[str, Sequence[Row]],
    number: Mapping[int | str, int],
    rules: Sequence[Rule],
    analyses: Sequence[Analysis],
) -> Trace:
    """The trace in an e-graph's tables; `number` maps raw classes to the view's."""
    matches = [match for rule in rules for match in _matches(rule, tables.get(match_table(rule.name), ()), number)]
    facts = {analysis.name: _facts(tables.get(analysis.name, ()), number, analysis.valued) for analysis in analyses}
    return Trace(tuple(matches), facts)


def _matches(rule: Rule, rows: Sequence[Row], number: Mapping[int | str, int]) -> list[Match]:
    """The matches of one rule, sorted by their values."""
    terms = trace_terms(rule)
    plain = [not sort_of(term).is_class for term in terms]
    matches = []
    for args, _ in rows:
        values = [arg if text else number.get(int(arg)) for arg, text in zip(args, plain, strict=True)]
        if None not in values:
            matches.append(values)
    return [_match(rule, terms, values) for values in sorted(matches)]


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
    facts = {number[int(about)]: str(text) if valued else "" for (about,), text in rows if int(about) in number}
    return dict(sorted(facts.items()))
