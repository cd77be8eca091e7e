"""Rules in pairs: where one speaks of the left operand of a product, its mirror image speaks of the right one."""

from __future__ import annotations

from dataclasses import replace

from ir.term.language import App, Contract, Fact, Prim, Term
from ir.term.rule import Condition, Equal, Exists, Rule
from rules.equations import printed

SIDES = ("left", "right")


def pair(side: str, first: Term, second: Term) -> tuple[Term, Term]:
    """Two operands, `first` on this side."""
    return (first, second) if side == "left" else (second, first)


def on_side(side: str, rule: Rule) -> Rule:
    """A rule that is written for the left side, or its mirror image, in which every contraction has its operands
    exchanged; with its equation."""
    if side == "left":
        return printed(rule)
    lhs = mirror_image(rule.lhs)
    assert isinstance(lhs, App)
    when = tuple(map(_mirror_condition, rule.when))
    return printed(replace(rule, lhs=lhs, rhs=mirror_image(rule.rhs), when=when))


def mirror_image(term: Term) -> Term:
    """The term with the operands of every contraction exchanged."""
    match term:
        case App(ctor=ctor, args=(element, sizes, x, y)) if ctor is Contract:
            return Contract(element, sizes, mirror_image(y), mirror_image(x))
        case App():
            return App(term.ctor, tuple(map(mirror_image, term.args)))
        case Fact():
            return Fact(term.analysis, mirror_image(term.term))
        case _:
            return term


def _mirror_condition(condition: Condition) -> Condition:
    match condition:
        case Exists(pattern):
            found = mirror_image(pattern)
            assert isinstance(found, App)
            return Exists(found)
        case Fact(analysis, term):
            return Fact(analysis, mirror_image(term))
        case Prim() | Equal():
            return condition
