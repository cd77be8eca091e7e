"""The certificate of a rule: why it is believed to be sound, computed from the rule."""

from __future__ import annotations

from collections.abc import Iterator

from ir.term.language import App, Prim, Term, subterms
from ir.term.rule import Certificate, Rule
from rules.proof import is_proved
from rules.rational import RATIONAL

_INTEGER = frozenset({"idiv", "mod", "and", "or", "xor", "not", "shl", "shr"})
"""Ops that take no floats: NumPy computes their exact values."""


def certificate(rule: Rule) -> Certificate:
    """PROVED where `rules.proof` finds a proof, EXACT where every op has exact values, else SAMPLED.

    All rules are also compared on random instances (`rules.soundness.check`).
    """
    if is_proved(rule):
        return Certificate.PROVED
    exact = RATIONAL | _INTEGER
    return Certificate.EXACT if all(op in exact for op in _ops(rule)) else Certificate.SAMPLED


def _ops(rule: Rule) -> Iterator[str]:
    """The elementwise ops that the sides may have; "?" for an op that may be any."""
    choices: dict[Term, tuple[str, ...]] = {
        condition.argument("text"): tuple(str(condition.argument("words")).split())
        for condition in rule.when
        if isinstance(condition, Prim) and condition.fn.name == "one_of"
    }
    for side in (rule.lhs, rule.rhs):
        for term in subterms(side):
            if isinstance(term, App) and "op" in term.fields and term.ctor.name not in ("Reduce", "Scan", "Scatter"):
                op = term.field("op")
                yield from (op,) if isinstance(op, str) else choices.get(op, ("?",))
