"""Enlarging: a convolution is one with a larger window whose constants are 0 beyond its own, x·A = x·[0 A 0].

So the branches of a block read their input through windows that are alike, and become one product (`rules.merging`).
Who is enlarged is decided on the whole program (`eqsat.egraph.places`): inputs whose product, merged, sums at most
twice the terms that they sum apart.

The level is `range`: 0·x is NaN where x is infinite or NaN, and the window reads beyond what it read before.
"""

from __future__ import annotations

from ir.term.language import App, Contract, Load, Term
from ir.term.rule import Exactness, Exists, Rule, pattern_variables
from rules.analyses import Computed, Finite, Place
from rules.concatenation import in_one_group
from rules.windows import enlarged

FAMILY = "enlarging"

x, c, f, m, n, u, w, d, j, k = pattern_variables("x:B c:B f:B m:S n:S u:S w:S d:S j:S k:S")
_maps = (m, n, u, k, j)


def _product(side: str, sizes: Term, read: Term, weights: Term) -> App:
    """A contraction of x with weights, which stand on this side."""
    operand = Load(x, read)
    return Contract(d, sizes, *((weights, operand) if side == "left" else (operand, weights)))


def _enlarge(side: str) -> Rule:
    """The product with c takes the window of that with f."""
    equation = "Σₖ x·A = Σⱼ x·[0 A 0], k ⊂ j" if side == "right" else "Σₖ A·x = Σⱼ [0 A 0]·x, k ⊂ j"
    lhs = _product(side, k, m, Load(c, n))
    rhs = _product(side, j, enlarged("read", *_maps), Load(c, enlarged("weights", *_maps)))
    other = Exists(_product(side, j, u, Load(f, w)))
    worth = (in_one_group(Place(c), Place(f)), Computed(x), Computed(c))
    return Rule(f"enlarge_{side}_weights", FAMILY, equation, lhs, rhs, (other, Finite(x), *worth), Exactness.RANGE)


RULES = tuple(_enlarge(side) for side in ("left", "right"))
