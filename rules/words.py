"""The literals in a rule's terms: a wrong op, dtype or number is an error before the rule is tried."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.term.language import (
    App,
    Ctor,
    EBin,
    ETern,
    EUn,
    Imm,
    PBin,
    PTern,
    PUn,
    Reduce,
    Scan,
    Scatter,
    Stream,
    Term,
    subterms,
)
from ir.term.rule import Rule
from ir.term.text import parse_number
from ir.uop.table import FUNCTIONS, SCANS


def _elementwise(arity: int) -> frozenset[str]:
    return frozenset(fn for fn, uop in FUNCTIONS.items() if uop.arity == arity)


_OPS: Mapping[Ctor, Collection[str]] = {
    **dict.fromkeys((PUn, EUn), _elementwise(1)),
    **dict.fromkeys((PBin, EBin), _elementwise(2)),
    **dict.fromkeys((PTern, ETern), _elementwise(3)),
    Reduce: ("sum", "max", "min", "prod"),
    Scan: tuple(SCANS),
    Scatter: ("last", "sum", "max", "min", "prod"),
    Stream: ("exp", "exp2"),
}


def check_words(rule: Rule) -> None:
    """Raises EqsatError, UnsoundRule, where a literal of the rule is no op, no dtype or no number."""
    for number in _numbers((*rule.patterns, rule.rhs)):
        try:
            parse_number(number)
        except ValueError:
            hint = '"2.0", "-inf", "nan"'
            fail(Kind.UNSOUND_RULE, "rules", f"Imm takes no value {number!r}", at=rule.name, hint=hint)
    for ctor, field, word, known in _literals((*rule.patterns, rule.rhs)):
        if word not in known:
            near = get_close_matches(word, sorted(known), 3) or sorted(known)
            fail(Kind.UNSOUND_RULE, "rules", f"{ctor} takes no {field} {word!r}", at=rule.name, hint=", ".join(near))


def _numbers(terms: Iterable[Term]) -> Iterable[str]:
    for term in terms:
        for part in subterms(term):
            if isinstance(part, App) and part.ctor == Imm and isinstance(number := part.field("value"), str):
                yield number


def _literals(terms: Iterable[Term]) -> Iterable[tuple[str, str, str, Collection[str]]]:
    """The ops and dtypes that terms name: constructor, field, word, and the words that the field may have."""
    for term in terms:
        for app in subterms(term):
            if not isinstance(app, App):
                continue
            for name, arg in app.fields.items():
                if isinstance(arg, str) and name == "op":
                    yield app.ctor.name, name, arg, _OPS[app.ctor]
                elif isinstance(arg, str) and name == "dtype":
                    yield app.ctor.name, name, arg, DTYPES
