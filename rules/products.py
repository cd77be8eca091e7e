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

from ir.term.language import Contract, Fin, Load, Store, Term
from ir.term.rule import Condition, Exactness, Rule, pattern_variables
from rules.analyses import Computed, Constant, Runs, Weight
from rules.equations import printed
from rules.primitives import accumulates_exactly, one_of, typed
from rules.regrouping import computes_less, regrouped
from rules.sides import SIDES, pair

FAMILY = "products"

A, B, C, a, b, c, t, at, d, j, k = pattern_variables("A:B B:B C:B a:S b:S c:S t:S at:S d:S j:S k:S")


def _regroup(outer: str, waiting: str, narrow: bool, folded: bool) -> Rule:
    """The inner product A·B stands on the side `outer` of C. In the inner product A stands on the side `waiting`: A is
    multiplied last. narrow: for floats narrower than fp32. folded: B and C are constants."""
    maps = (outer, c, at, a, b, k, j)
    inner = Contract(d, j, *pair(waiting, Load(A, a), Load(B, b)))
    lhs = Contract(d, k, *pair(outer, Load(Store(Fin(inner), t), at), Load(C, c)))
    element: Term = "fp32" if narrow else d
    factors = pair(outer, Load(B, regrouped("first", *maps)), Load(C, regrouped("second", *maps)))
    grouped = Store(Fin(Contract(element, k, *factors)), typed(element, regrouped("sizes", *maps)))
    last = pair(waiting, Load(A, regrouped("outside", *maps)), Load(grouped, regrouped("read", *maps)))
    dtypes: Condition = one_of(d, "fp16 bf16") if narrow else accumulates_exactly(d)
    worth = (Weight(C), Constant(B), Runs(A)) if folded else (computes_less(*maps),)
    name = f"regroup_{outer}_product_by_{waiting}{'_narrow' * narrow}{'_of_constants' * folded}"
    when = (dtypes, *worth, *map(Computed, (C, A, B)))
    return printed(Rule(name, FAMILY, "", lhs, Contract(d, j, *last), when, Exactness.ROUNDING))


RULES = tuple(
    _regroup(outer, waiting, narrow, folded)
    for outer in SIDES
    for waiting in SIDES
    for narrow in (False, True)
    for folded in (False, True)
)
