"""Which rules can fire at all on a program: those whose constructors, ops and dtypes it has, or such a rule makes.

Every rule costs time in every iteration, found or not; most programs use few of the ops that rules know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ir.term.language import CTORS, App, Fact, Prim, Term, subterms
from ir.term.rule import Equal, Rule
from rules.constants import mirrored, opposite
from rules.primitives import element_of, one_of

ANY = "any"
"""Stands for the ops and dtypes that a primitive may name."""

_NAMED = dict.fromkeys((mirrored.path, opposite.path), ("cmpeq", "cmpne", "cmplt", "cmple", "cmpgt", "cmpge"))
"""Primitives that name no others than these."""


def reachable(rules: Iterable[Rule], terms: Iterable[Term]) -> tuple[Rule, ...]:
    """The rules that may come to match in the e-graph of these terms; no other ever does."""
    known = {feature for term in terms for feature in _features(term)}
    every = [_Needs.of(rule) for rule in rules]
    waiting = every
    while ready := [each for each in waiting if each.are_met(known)]:
        waiting = [each for each in waiting if not each.are_met(known)]
        known.update(feature for each in ready for feature in _features(each.rule.rhs))
    return tuple(each.rule for each in every if each.are_met(known))


class _Needs(NamedTuple):
    """What a rule needs: all of some features, and one of each set of choices."""

    rule: Rule
    features: frozenset[str]
    choices: tuple[set[str], ...]

    @classmethod
    def of(cls, rule: Rule) -> _Needs:
        needed = frozenset(feature for pattern in rule.patterns for feature in _features(pattern))
        return cls(rule, needed, tuple(_choices(rule)))

    def are_met(self, known: set[str]) -> bool:
        if ANY in known:
            return self.features & CTORS.keys() <= known
        return self.features <= known and all(words & known for words in self.choices)


def _choices(rule: Rule) -> Iterator[set[str]]:
    """Sets of words of each of which an op or a dtype of the left side must be one."""
    named = {name for each in subterms(rule.lhs) for name in _names(each)}
    for condition in rule.when:
        match condition:
            case Prim(fn=fn, args=(name, str() as words)) if fn is one_of and name in named:
                yield set(words.split())
            case Equal(left=Fact(), right=str() as element):
                yield {element}


def _features(term: Term) -> Iterator[str]:
    """The constructors, ops and dtypes in a term."""
    for each in subterms(term):
        if isinstance(each, App):
            yield each.ctor.name
            for name in _names(each):
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
