"""Centring: what is added to the operand of a product leaves it, (x − μ)·W = x·W − μ·(1·W).

A layer norm before a linear layer is r·(x − μ)·g + β. Its shift becomes a bias, β·W; its gain joins the weights
(`rules.scaling`), its statistics are left to the product: r·(x·(gW) − μ·(1·gW)) + βW. The product then reads x, and
nobody stores a normalized copy of it.

The level is `range`: where x lies close to μ the source subtracts first and loses nothing, while x·W and μ·(1·W) are
large and cancel.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import App, Contract, EBin, Fin, Load, PBin, Pure, Reduce, Store, Term
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.analyses import Computed, Constant
from rules.primitives import accumulates_exactly, invariant, one_of, typed
from rules.totals import total

FAMILY = "centring"

b, c, p, m, n, o, d, k = pattern_variables("b:B c:B p:P m:S n:S o:S d:S k:S")
_SIDES = ("left", "right")
_weights = Load(c, n)
_known = (Constant(c), Computed(c), accumulates_exactly(d), one_of(o, "add sub"))


def _product(side: str, operand: Term) -> App:
    """The product with the constant weights, which stand on this side."""
    return Contract(d, k, *((_weights, operand) if side == "left" else (operand, _weights)))


def _free_mean(side: str) -> Rule:
    summed = Store(Fin(Reduce("sum", d, k, Load(c, total("first", n, n, k)))), typed(d, total("sizes", n, n, k)))
    mean = PBin("mul", d, Load(b, invariant(m, k)), Load(summed, total("read", n, n, k)))
    lhs = Fin(_product(side, PBin(o, d, p, Load(b, m))))
    rhs = EBin(o, d, Fin(_product(side, p)), Pure(mean))
    equation = "Σₖ (p ± T[m(i)])·W ≈ (Σₖ p·W) ± T[m(i)]·ΣₖW"
    return Rule(f"mean_beside_{side}_constants", FAMILY, equation, lhs, rhs, _known, Exactness.RANGE)


def _free_shift(side: str, place: str) -> Rule:
    """The constant shift b stands in the sum on the side `place`."""
    sums = (Load(b, m), p) if place == "left" else (p, Load(b, m))
    bias = Store(
        Fin(Contract(d, k, Load(b, total("first", m, n, k)), Load(c, total("second", m, n, k)))),
        typed(d, total("sizes", m, n, k)),
    )
    added = Pure(Load(bias, total("read", m, n, k)))
    rest = Fin(_product(side, p))
    lhs = Fin(_product(side, PBin(o, d, *sums)))
    rhs = EBin(o, d, *((added, rest) if place == "left" else (rest, added)))
    when = (*_known, Constant(b), Computed(b))
    name = f"shift_on_the_{place}_beside_{side}_constants"
    return Rule(name, FAMILY, "Σₖ (p ± β)·W ≈ (Σₖ p·W) ± Σₖ β·W", lhs, rhs, when, Exactness.RANGE)


RULES = (*map(_free_mean, _SIDES), *(_free_shift(*sides) for sides in product(_SIDES, _SIDES)))
