"""The terms of a program, and what is given of them, as egglog text.

Each command costs the engine about as much as a small search, so there is one a term: what holds of it is told by the
table through which it is loaded, and a rule of that table says so of all that it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eqsat.egraph.egglog_text import LOADED, held_value
from eqsat.egraph.query_text import quoted
from ir.term.language import Analysis, App, Sort, Term, Var, is_op, subterms

Marked = Mapping[Analysis, Sequence[str] | Mapping[str, str]]
"""For an analysis that is given, the names of the terms for which it holds; its texts by name, if it has any."""

_RULESET = "load"


def load_text(terms: Sequence[tuple[str, App]], marks: Marked, parts: Sequence[Analysis] = ()) -> Iterator[str]:
    """The commands that make each term a buffer, `(T i)` the i-th, with what `marks` give of it; `parts` hold for the
    ops below the one that gives its value. A term reads those before it through variables of their names.
    """
    plain = {analysis: frozenset(names) for analysis, names in marks.items() if not analysis.valued}
    given = {name: tuple(each for each, names in plain.items() if name in names) for name, _ in terms}
    tables = {held: f"{LOADED}{number}" for number, held in enumerate(dict.fromkeys(given.values()))}
    yield f"(ruleset {_RULESET})"
    for held, table in tables.items():
        yield f"(function {table} (i64) {Sort.BUF.value} :no-merge)"
        facts = " ".join(f"({each.name} ?term)" for each in held)
        yield f"(rule ((= ?term ({table} ?index))) ((set ({LOADED} ?index) ?term) {facts}) :ruleset {_RULESET})"
    buffers = {name: f"({tables[given[name]]} {index})" for index, (name, _) in enumerate(terms)}
    for name, term in terms:
        yield f"(set {buffers[name]} {_ground(term, buffers)})"
        for each in subterms(term):
            if is_op(each) and each != held_value(term):
                yield from (
                    f"({part.name} {_ground(each, buffers)})" for part in parts if each.ctor.result is part.over
                )
    for analysis, texts in marks.items():
        if analysis.valued and isinstance(texts, Mapping):
            yield from (f"(set ({analysis.name} {buffers[name]}) {quoted(text)})" for name, text in texts.items())
    yield f"(run {_RULESET} 1)"


def _ground(term: Term, buffers: Mapping[str, str]) -> str:
    match term:
        case App():
            return f"({term.ctor.name} {' '.join([_ground(arg, buffers) for arg in term.args])})"
        case Var():
            return buffers[term.name]
        case str():
            return quoted(term)
        case int():
            return str(term)
    raise TypeError(f"{term} is not ground")
