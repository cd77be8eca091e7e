"""Products of products: of the two ways to group them the one that computes less, (A·B)·C = A·(B·C).

A product whose other factor stands outside is stored first: the rules make buffers that the program does not have.
They fire only where that leaves fewer terms to sum, or where the two that are multiplied first are constants and the
third is none, so that they come to an end. Of many constants in a row only the left-most come first: a product of all
of them costs nothing when the program runs, whichever way it is grouped.

The level is `rounding`: T = B·C is rounded where A·B was. Both orders stay within the bound γₙ·|A|·|B|·|C| that holds
for either of them element by element (Higham, "Accuracy and Stability of Numerical Algorithms", §3.5), so neither
cancels where the other does not. Of floats narrower than fp32 the product is kept in fp32: it is not rounded more
often than before, and overflows no earlier.
"""

from __future__ import annotations

from ir.term.language import App, Contract, Fin, Load, Store, Term
from ir.term.rule import Condition, Exactness, Rule, pattern_variables
from rules.analyses import Computed, Constant, Runs, Weight
from rules.primitives import accumulates_exactly, one_of, typed
from rules.regrouping import computes_less, regrouped

FAMILY = "products"

b, c, f, m, n, w, s, d, j, k, t = pattern_variables("b:B c:B f:B m:S n:S w:S s:S d:S j:S k:S t:S")
_SIDES = ("left", "right")


def _product(side: str, sizes: Term, first: Term, second: Term, element: Term = d) -> App:
    """The contraction of two factors, `first` on this side."""
    return Contract(element, sizes, *((first, second) if side == "left" else (second, first)))


def _regroup(outer: str, waiting: str, narrow: bool, folded: bool) -> Rule:
    """The inner product stands on the side `outer`; its factor on the side `waiting` is multiplied last."""
    maps = (outer, m, s, n, w, k, j)
    inner = _product(waiting, j, Load(c, n), Load(f, w))
    lhs = _product(outer, k, Load(Store(Fin(inner), t), s), Load(b, m))
    element: Term = "fp32" if narrow else d
    grouped = Store(
        Fin(_product(outer, k, Load(f, regrouped("first", *maps)), Load(b, regrouped("second", *maps)), element)),
        typed(element, regrouped("sizes", *maps)),
    )
    rhs = _product(waiting, j, Load(c, regrouped("outside", *maps)), Load(grouped, regrouped("read", *maps)))
    dtypes: Condition = one_of(d, "fp16 bf16") if narrow else accumulates_exactly(d)
    worth = (Weight(b), Constant(f), Runs(c)) if folded else (computes_less(*maps),)
    name = f"regroup_{outer}_product_by_{waiting}{'_narrow' * narrow}{'_of_constants' * folded}"
    equation = {
        ("left", "left"): "(A·B)·C = A·(B·C)",
        ("left", "right"): "(B·A)·C = (B·C)·A, A waits",
        ("right", "left"): "C·(A·B) = A·(C·B), A waits",
        ("right", "right"): "C·(B·A) = (C·B)·A",
    }[outer, waiting]
    when = (dtypes, *worth, *map(Computed, (b, c, f)))
    return Rule(name, FAMILY, equation, lhs, rhs, when, Exactness.ROUNDING)


RULES = tuple(
    _regroup(outer, waiting, narrow, folded)
    for outer in _SIDES
    for waiting in _SIDES
    for narrow in (False, True)
    for folded in (False, True)
)
