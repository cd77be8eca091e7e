"""Rules in pairs: one is about the left operand of a product, its mirror image is about the right operand."""

from __future__ import annotations

from ir.term.language import App, Contract, Fact, Term
from ir.term.rule import Rule
from rules.equations import add_equation

SIDES = ("left", "right")


def pair(side: str, first: Term, second: Term) -> tuple[Term, Term]:
    """Two operands, `first` on this side."""
    return (first, second) if side == "left" else (second, first)


def on_side(side: str, rule: Rule) -> Rule:
    """A rule that is written for the left side, or its mirror image, in which every contraction has its operands
    exchanged; with its equation."""
    return add_equation(rule if side == "left" else rule.map_terms(mirror))


def mirror(term: Term) -> Term:
    """The term with the operands of every contraction exchanged."""
    match term:
        case App(ctor=ctor, fields={"dtype": element, "sizes": sizes, "x": x, "y": y}) if ctor is Contract:
            return Contract(element, sizes, mirror(y), mirror(x))
        case App():
            return App(term.ctor, tuple(map(mirror, term.args)))
        case Fact():
            return Fact(term.analysis, mirror(term.term))
        case _:
            return term
