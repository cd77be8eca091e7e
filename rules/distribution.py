"""Distribution: products that share a factor are added before they are multiplied, A·X ± A·Y = A·(X ± Y).

One product is computed in place of two. Where X and Y are constants, their sum is a constant as well. The level is
`rounding`: the error of either side is within γₙ·|A|·(|X| + |Y|).

The reverse is taken where a sum holds a product that is larger than its factors, x·(W + A·B) = x·W + (x·A)·B: the
factors may then be multiplied one by one. What cancels there has been rounded before, in A·B. Prices tell which side
costs less.

Addends that stand between two products are passed over, at the cost of one rounding of a sum. The sum holds a product,
which is rounded itself.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import App, Contract, Fin, Load, PBin, PUn, Pure, Store, Term
from ir.term.rule import Condition, Equal, Exactness, Rule, pattern_variables
from rules.analyses import BufDtype, Computed, LowRank, ProDtype, Reduced
from rules.blocks import in_place
from rules.equations import add_equation
from rules.primitives import accumulates_exactly, one_of, typed, unguarded
from rules.regrouping import joint
from rules.sides import SIDES, on_side, pair

FAMILY = "distribution"

A, B, X, Y, p, q, r, s, a, b, x, y, o, d, k, t, at = pattern_variables(
    "A:B B:B X:B Y:B p:P q:P r:P s:P a:S b:S x:S y:S o:S d:S k:S t:S at:S"
)
_adds = one_of(o, "add sub")
_of_products = (Reduced(p), Reduced(r), accumulates_exactly(d))


def _collect(side: str) -> Rule:
    """The common factor A stands on this side of both products."""

    def store(other: Term) -> App:
        return Load(Store(Fin(Contract(d, k, Load(A, a), other)), t), at)

    total = PBin(o, d, Load(X, joint("first", x, y)), Load(Y, joint("second", x, y)))
    summed = Load(Store(Pure(total), typed(d, joint("sizes", x, y))), joint("read", x, y))
    lhs = PBin(o, d, store(Load(X, x)), store(Load(Y, y)))
    dtypes = (accumulates_exactly(d), Equal(BufDtype(X), d), Equal(BufDtype(Y), d))
    when: tuple[Condition, ...] = (_adds, unguarded(at), *dtypes, *map(Computed, (A, X, Y)))
    return on_side(side, Rule(f"collect_{side}_factor", FAMILY, "", lhs, store(summed), when, Exactness.ROUNDING))


def _expand(side: str, place: str) -> Rule:
    """The sum stands on this side of the product with p. In the sum B, itself a product, stands on the side `place`."""

    def store(operand: Term) -> App:
        return Store(Fin(Contract(d, k, operand, p)), t)

    sums = pair(place, Load(B, b), q)
    parts = (Load(store(operand), in_place(t)) for operand in sums)
    lhs, rhs = store(PBin(o, d, *sums)), Store(Pure(PBin(o, d, *parts)), t)
    name = f"expand_{side}_sum_with_{place}_product"
    when = (LowRank(B), _adds, accumulates_exactly(d))
    return on_side(side, Rule(name, FAMILY, "", lhs, rhs, when, Exactness.ROUNDING))


def _pass_over(first: str, last: str) -> Rule:
    """The addend q stands on the side `first` of the product p, the product r on the side `last` of their sum."""
    lhs = PBin("add", d, *pair(last, r, PBin("add", d, *pair(first, q, p))))
    rhs = PBin("add", d, PBin("add", d, p, r), q)
    name = f"pass_over_addend_{first}_{last}"
    return add_equation(Rule(name, FAMILY, "", lhs, rhs, _of_products, Exactness.ROUNDING))


def _pass_over_two(first: str, last: str) -> Rule:
    """The products p and r have addends: q on the side `first` of p, and s on the side `last` of r."""
    lhs = PBin("add", d, PBin("add", d, *pair(first, q, p)), PBin("add", d, *pair(last, s, r)))
    rhs = PBin("add", d, PBin("add", d, p, r), PBin("add", d, q, s))
    name = f"pass_over_addends_{first}_{last}"
    return add_equation(Rule(name, FAMILY, "", lhs, rhs, _of_products, Exactness.ROUNDING))


RULES = (
    *map(_collect, SIDES),
    *(_expand(*sides) for sides in product(SIDES, SIDES)),
    Rule("add_before_rounding", FAMILY, "d(p) ± d(r) ≈ d(p ± r)",
         PBin(o, d, PUn("cast", d, p), PUn("cast", d, r)), PUn("cast", d, PBin(o, "fp32", p, r)),
         (Reduced(p), Reduced(r), one_of(d, "fp16 bf16"), Equal(ProDtype(p), "fp32"), Equal(ProDtype(r), "fp32"),
          _adds), Exactness.ROUNDING),
    *(_pass_over(*sides) for sides in product(SIDES, SIDES)),
    *(_pass_over_two(*sides) for sides in product(SIDES, SIDES)),
)  # fmt: skip
