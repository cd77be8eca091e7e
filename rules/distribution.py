"""Distribution: products that share a factor are added before they are multiplied, A·X ± A·Y = A·(X ± Y).

That computes one product in place of two; where X and Y are constants, their sum is one, too. The level is `rounding`:
the error of either side is within γₙ·|A|·(|X| + |Y|). The reverse is taken where a sum holds a product that costs
more than to multiply its factors one by one, x·(W + A·B) = x·W + (x·A)·B: what cancels there has been rounded before,
in A·B. An addend that stands between two such products is passed over, at the cost of a rounding of a sum that a
product, itself rounded, is a part of.
"""

from __future__ import annotations

from itertools import product

from ir.rule import Condition, Exactness, Rule, pattern_variables
from ir.term import App, Contract, Fin, Load, PBin, Pure, Store, Term
from rules.analyses import BufDtype, Computed, Reduced
from rules.primitives import accumulates_exactly, one_of, unguarded
from rules.regrouping import (
    joint_first,
    joint_read,
    joint_second,
    joint_type,
    same,
)

FAMILY = "distribution"

a, c, f, p, q, r, m, n, w, o, s, d, k, t = pattern_variables("a:B c:B f:B p:P q:P r:P m:S n:S w:S o:S s:S d:S k:S t:S")
_SIDES = ("left", "right")


def _product(side: str, factor: Term, other: Term) -> App:
    """A product as it was stored: `factor` stands on this side."""
    operands = (factor, other) if side == "left" else (other, factor)
    return Load(Store(Fin(Contract(d, k, *operands)), t), s)


_factor = Load(a, m)
_x, _y = Load(c, n), Load(f, w)
_exact_sums = (accumulates_exactly(d), same(BufDtype(c), d), same(BufDtype(f), d))
_read = (Computed(a), Computed(c), Computed(f))


def _collect(side: str) -> Rule:
    total = PBin(o, d, Load(c, joint_first(n, w)), Load(f, joint_second(n, w)))
    summed = Load(Store(Pure(total), joint_type(d, n, w)), joint_read(n, w))
    equation = "A·X ± A·Y = A·(X ± Y)" if side == "left" else "X·A ± Y·A = (X ± Y)·A"
    lhs = PBin(o, d, _product(side, _factor, _x), _product(side, _factor, _y))
    when: tuple[Condition, ...] = (one_of(o, "add sub"), unguarded(s), *_exact_sums, *_read)
    name = f"collect_{side}_factor"
    return Rule(name, FAMILY, equation, lhs, _product(side, _factor, summed), when, Exactness.ROUNDING)


def _pass_over(first: str, last: str) -> Rule:
    """The addend q stands between two products: beside the first, on the side `first`, and both are added to the
    second on the side `last`."""
    beside = PBin("add", d, *((q, p) if first == "left" else (p, q)))
    lhs = PBin("add", d, *((r, beside) if last == "left" else (beside, r)))
    rhs = PBin("add", d, PBin("add", d, p, r), q)
    when = (Reduced(p), Reduced(r), accumulates_exactly(d))
    return Rule(
        f"pass_over_addend_{first}_{last}", FAMILY, "(p + q) + r ≈ (p + r) + q", lhs, rhs, when, Exactness.ROUNDING
    )


RULES = (*map(_collect, _SIDES), *(_pass_over(first, last) for first, last in product(_SIDES, _SIDES)))
