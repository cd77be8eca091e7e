"""The rules that can match in a program: their constructors, ops and dtypes are in the program, or are built by a rule
that can match.

The engine spends time on every rule, and most programs use few of the ops that rules know. A rule that is left out here
costs no search; `eqsat.egraph.growing` watches for the patterns of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from ir.term.language import CTORS, App, Fact, Prim, Term, subterms
from ir.term.rule import KEPT_RULES, Equal, Rule
from rules.constants import mirrored, opposite
from rules.primitives import element_of, one_of

ANY = "any"
"""A feature that stands for every op and every dtype: a primitive may name any of them."""

_NAMED = dict.fromkeys((mirrored.path, opposite.path), ("cmpeq", "cmpne", "cmplt", "cmple", "cmpgt", "cmpge"))
"""The ops that these primitives may name."""


def reachable(rules: Iterable[Rule], terms: Iterable[Term]) -> tuple[Rule, ...]:
    """The rules that may match in the e-graph of these terms, now or later. The other rules never match."""
    known = {feature for term in terms for feature in _features(term)}
    every = list(map(_needs_of, rules))
    waiting = every
    while ready := [needs for needs in waiting if needs.are_met(known)]:
        waiting = [needs for needs in waiting if not needs.are_met(known)]
        known.update(feature for needs in ready for feature in needs.built)
    return tuple(needs.rule for needs in every if needs.are_met(known))


class _Needs(NamedTuple):
    """The needs of a rule: all of its features, and one of each set of choices. built: the features of its result."""

    rule: Rule
    features: frozenset[str]
    choices: tuple[set[str], ...]
    built: frozenset[str]

    def are_met(self, known: set[str]) -> bool:
        if ANY in known:
            return self.features & CTORS.keys() <= known
        return self.features <= known and all(words & known for words in self.choices)


@lru_cache(KEPT_RULES)
def _needs_of(rule: Rule) -> _Needs:
    features = frozenset(feature for pattern in rule.patterns for feature in _features(pattern))
    return _Needs(rule, features, tuple(_choices(rule)), frozenset(_features(rule.rhs)))


def _choices(rule: Rule) -> Iterator[set[str]]:
    """Sets of words: of each set, one word must be an op or a dtype of the left side."""
    named = {name for part in subterms(rule.lhs) for name in _names(part)}
    for condition in rule.when:
        match condition:
            case Prim(fn=fn, arguments={"text": name, "words": str() as words}) if fn is one_of and name in named:
                yield set(words.split())
            case Equal(left=Fact(), right=str() as element):
                yield {element}


def _features(term: Term) -> Iterator[str]:
    """The constructors, ops and dtypes in a term."""
    for part in subterms(term):
        if isinstance(part, App):
            yield part.ctor.name
            for name in _names(part):
                if isinstance(name, str):
                    yield name
                elif isinstance(name, Prim):
                    yield from _NAMED.get(name.fn.path, (ANY,))


def _names(term: Term) -> Iterator[Term]:
    """The op and the dtype of an application."""
    if isinstance(term, App):
        for field, arg in term.fields.items():
            if field in ("op", "dtype"):
                yield arg
            elif field == "type" and isinstance(arg, str):
                yield element_of.fn(arg)
