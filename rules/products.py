"""Products of products: of the two groupings (A·B)·C and A·(B·C) the rules take the one that computes less.

The factor B·C of the new product is stored first: the rules make buffers that the program does not have. A rule fires
only where fewer terms are left to sum, or where B and C are constants and A is none, so that the rules come to an end.
Of many constants in a row only the left-most are multiplied first: a product of constants costs nothing when the
program runs.

The level is `rounding`: B·C is rounded where A·B was. Both orders stay within the bound γₙ·|A|·|B|·|C| that holds for
either order element by element (Higham, "Accuracy and Stability of Numerical Algorithms", §3.5): neither cancels where
the other does not. For floats narrower than fp32 the stored product is in fp32: it is rounded no more often than
before, and overflows no earlier.
"""

from __future__ import annotations

from ir.term.language import Contract, Fin, Load, Store, Term
from ir.term.rule import Condition, Exactness, Rule, pattern_variables
from rules.analyses import Computed, Constant, Runs, Weight
from rules.equations import add_equation
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
    return add_equation(Rule(name, FAMILY, "", lhs, Contract(d, j, *last), when, Exactness.ROUNDING))


RULES = tuple(
    _regroup(outer, waiting, narrow, folded)
    for outer in SIDES
    for waiting in SIDES
    for narrow in (False, True)
    for folded in (False, True)
)
