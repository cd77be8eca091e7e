"""The terms of a program, and the facts that are given for them, as egglog text.

A command costs the engine about as much as a small search. So each term takes one command: terms with the same facts
are loaded through the same table, and one rule per table states the facts for all its terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eqsat.egraph.egglog_text import LOADED, held_value
from eqsat.egraph.query_text import quote
from ir.term.language import Analysis, App, Sort, Term, Var, is_op, subterms

Marked = Mapping[Analysis, Sequence[str] | Mapping[str, str]]
"""For a given analysis, the names of the terms for which it holds; with its text by name, if it has texts."""

_RULESET = "load"


def load_text(terms: Sequence[tuple[str, App]], marks: Marked, parts: Sequence[Analysis] = ()) -> Iterator[str]:
    """The commands that make each term a buffer; `(T i)` is the i-th. A term reads earlier terms through variables with
    their names. marks: facts on the buffers. parts: facts that hold for all ops in a term but the one on top.
    """
    plain = {analysis: frozenset(names) for analysis, names in marks.items() if not analysis.valued}
    facts_of = {name: tuple(analysis for analysis, names in plain.items() if name in names) for name, _ in terms}
    tables = {analyses: f"{LOADED}{number}" for number, analyses in enumerate(dict.fromkeys(facts_of.values()))}
    yield f"(ruleset {_RULESET})"
    for analyses, table in tables.items():
        yield f"(function {table} (i64) {Sort.BUF.value} :no-merge)"
        facts = " ".join(f"({analysis.name} ?term)" for analysis in analyses)
        yield f"(rule ((= ?term ({table} ?index))) ((set ({LOADED} ?index) ?term) {facts}) :ruleset {_RULESET})"
    buffers = {name: f"({tables[facts_of[name]]} {index})" for index, (name, _) in enumerate(terms)}
    for name, term in terms:
        yield f"(set {buffers[name]} {_ground_text(term, buffers)})"
        for part in subterms(term):
            if is_op(part) and part != held_value(term):
                yield from (
                    f"({fact.name} {_ground_text(part, buffers)})" for fact in parts if part.ctor.result is fact.over
                )
    for analysis, texts in marks.items():
        if analysis.valued and isinstance(texts, Mapping):
            yield from (f"(set ({analysis.name} {buffers[name]}) {quote(text)})" for name, text in texts.items())
    yield f"(run {_RULESET} 1)"


def _ground_text(term: Term, buffers: Mapping[str, str]) -> str:
    match term:
        case App():
            return f"({term.ctor.name} {' '.join([_ground_text(arg, buffers) for arg in term.args])})"
        case Var():
            return buffers[term.name]
        case str():
            return quote(term)
        case int():
            return str(term)
    raise TypeError(f"{term} is not ground")
