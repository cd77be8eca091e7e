"""Enlarging: a convolution takes a larger window with zeros around its weights, x·A = x·[0 A 0].

The branches of a block then read their input through windows that are alike, and become one product (`rules.merging`).
`eqsat.egraph.places` decides on the whole program which inputs are enlarged: their merged product may sum at most twice
as many terms as their separate products.

The level is `range`: 0·x is NaN where x is infinite or NaN, and the window reads more of x than before.
"""

from __future__ import annotations

from ir.term.language import Contract, Load
from ir.term.rule import Exactness, Exists, Rule, pattern_variables
from rules.analyses import Computed, Finite, Place
from rules.concatenation import in_one_group
from rules.sides import SIDES, on_side
from rules.windows import enlarged

FAMILY = "enlarging"

X, A, B, x, a, wide, b, d, j, k = pattern_variables("X:B A:B B:B x:S a:S wide:S b:S d:S j:S k:S")
_maps = (x, a, wide, k, j)


def _enlarge(side: str) -> Rule:
    """The product with A, whose weights stand on this side, takes the larger window of the product with B."""
    lhs = Contract(d, k, Load(A, a), Load(X, x))
    rhs = Contract(d, j, Load(A, enlarged("weights", *_maps)), Load(X, enlarged("read", *_maps)))
    other = Exists(Contract(d, j, Load(B, b), Load(X, wide)))
    when = (other, Finite(X), in_one_group(Place(A), Place(B)), Computed(X), Computed(A))
    return on_side(side, Rule(f"enlarge_{side}_weights", FAMILY, "", lhs, rhs, when, Exactness.RANGE))


RULES = tuple(map(_enlarge, SIDES))
