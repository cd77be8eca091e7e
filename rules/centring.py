"""Centring: an addend of the operand of a product leaves the product, (x − μ)·W = x·W − μ·(1·W).

A layer norm before a linear layer is r·(x − μ)·g + β. Its shift β becomes a bias β·W, its gain g joins the weights
(`rules.scaling`), and its statistics leave the product: r·(x·(gW) − μ·(1·gW)) + βW. The product then reads x, and no
normalized copy of x is stored.

The level is `range`: where x lies close to μ, the source subtracts first and loses nothing, but x·W and μ·(1·W) are
large and cancel.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import Contract, EBin, Fin, Load, PBin, Pure, Reduce, Store
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.analyses import Computed, Constant
from rules.equations import add_equation
from rules.primitives import accumulates_exactly, invariant, one_of, typed
from rules.sides import SIDES, on_side, pair
from rules.totals import total

FAMILY = "centring"

B, W, p, b, w, o, d, k = pattern_variables("B:B W:B p:P b:S w:S o:S d:S k:S")
_weights = Load(W, w)
_known = (Constant(W), Computed(W), accumulates_exactly(d), one_of(o, "add sub"))


def _free_mean(side: str) -> Rule:
    """The mean B does not change along k. The weights stand on this side."""
    summed = Store(Fin(Reduce("sum", d, k, Load(W, total("first", w, w, k)))), typed(d, total("sizes", w, w, k)))
    mean = PBin("mul", d, Load(B, invariant(b, k)), Load(summed, total("read", w, w, k)))
    lhs = Fin(Contract(d, k, _weights, PBin(o, d, p, Load(B, b))))
    rhs = EBin(o, d, Fin(Contract(d, k, _weights, p)), Pure(mean))
    return on_side(side, Rule(f"mean_beside_{side}_constants", FAMILY, "", lhs, rhs, _known, Exactness.RANGE))


def _free_shift(side: str, place: str) -> Rule:
    """The constant shift B stands on the side `place` of the sum, the weights on this side of the product."""
    bias = Store(
        Fin(Contract(d, k, Load(B, total("first", b, w, k)), Load(W, total("second", b, w, k)))),
        typed(d, total("sizes", b, w, k)),
    )
    added, rest = Pure(Load(bias, total("read", b, w, k))), Fin(Contract(d, k, *pair(side, _weights, p)))
    lhs = Fin(Contract(d, k, *pair(side, _weights, PBin(o, d, *pair(place, Load(B, b), p)))))
    when = (*_known, Constant(B), Computed(B))
    name = f"shift_on_the_{place}_beside_{side}_constants"
    return add_equation(Rule(name, FAMILY, "", lhs, EBin(o, d, *pair(place, added, rest)), when, Exactness.RANGE))


RULES = (*map(_free_mean, SIDES), *(_free_shift(*sides) for sides in product(SIDES, SIDES)))
