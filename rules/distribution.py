"""Distribution: products that share a factor are added before they are multiplied, A·X ± A·Y = A·(X ± Y).

That computes one product in place of two; where X and Y are constants, their sum is one, too. The level is `rounding`:
the error of either side is within γₙ·|A|·(|X| + |Y|).

The reverse is taken where a sum holds a product that is larger than its factors, which may then be multiplied one by
one, x·(W + A·B) = x·W + (x·A)·B: what cancels there has been rounded before, in A·B. Which of the two costs less is for
prices to tell. Addends that stand between two products are passed over, at the cost of a rounding of a sum that a
product, itself rounded, is a part of.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import App, Contract, Fin, Load, PBin, PUn, Pure, Store, Term
from ir.term.rule import Condition, Equal, Exactness, Rule, pattern_variables
from rules.analyses import BufDtype, Computed, LowRank, ProDtype, Reduced
from rules.blocks import in_place
from rules.primitives import accumulates_exactly, one_of, typed, unguarded
from rules.regrouping import joint

FAMILY = "distribution"

a, b, c, f, p, q, r, u, m, n, w, o, s, d, k, t = pattern_variables(
    "a:B b:B c:B f:B p:P q:P r:P u:P m:S n:S w:S o:S s:S d:S k:S t:S"
)
_SIDES = ("left", "right")


def _contracted(side: str, factor: Term, other: Term) -> App:
    """A product in which `factor` stands on this side."""
    return Contract(d, k, *((factor, other) if side == "left" else (other, factor)))


def _product(side: str, factor: Term, other: Term) -> App:
    """The same as it was stored."""
    return Load(Store(Fin(_contracted(side, factor, other)), t), s)


_factor = Load(a, m)
_x, _y = Load(c, n), Load(f, w)
_exact_sums = (accumulates_exactly(d), Equal(BufDtype(c), d), Equal(BufDtype(f), d))
_read = (Computed(a), Computed(c), Computed(f))


def _collect(side: str) -> Rule:
    total = PBin(o, d, Load(c, joint("first", n, w)), Load(f, joint("second", n, w)))
    summed = Load(Store(Pure(total), typed(d, joint("sizes", n, w))), joint("read", n, w))
    equation = "A·X ± A·Y = A·(X ± Y)" if side == "left" else "X·A ± Y·A = (X ± Y)·A"
    lhs = PBin(o, d, _product(side, _factor, _x), _product(side, _factor, _y))
    when: tuple[Condition, ...] = (one_of(o, "add sub"), unguarded(s), *_exact_sums, *_read)
    name = f"collect_{side}_factor"
    return Rule(name, FAMILY, equation, lhs, _product(side, _factor, summed), when, Exactness.ROUNDING)


def _expand(side: str, place: str) -> Rule:
    """The sum stands on this side; in it the product, on the side `place`."""
    updated, base = Load(b, m), q
    sums = (updated, base) if place == "left" else (base, updated)

    def stored(operand: Term) -> App:
        return Store(Fin(_contracted(side, operand, p)), t)

    parts = (Load(stored(each), in_place(t)) for each in sums)
    return Rule(
        f"expand_{side}_sum_with_{place}_product",
        FAMILY,
        "(W ± A·B)·x = W·x ± (A·B)·x" if side == "left" else "x·(W ± A·B) = x·W ± x·(A·B)",
        stored(PBin(o, d, *sums)),
        Store(Pure(PBin(o, d, *parts)), t),
        (LowRank(b), one_of(o, "add sub"), accumulates_exactly(d)),
        Exactness.ROUNDING,
    )


def _add_before_rounding() -> Rule:
    one, two = (PUn("cast", d, each) for each in (p, r))
    wide = (Equal(ProDtype(each), "fp32") for each in (p, r))
    rhs = PUn("cast", d, PBin(o, "fp32", p, r))
    equation = "round(p) ± round(r) ≈ round(p ± r)"
    when: tuple[Condition, ...] = (Reduced(p), Reduced(r), one_of(d, "fp16 bf16"), *wide, one_of(o, "add sub"))
    return Rule("add_before_rounding", FAMILY, equation, PBin(o, d, one, two), rhs, when, Exactness.ROUNDING)


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


def _pass_over_two(first: str, last: str) -> Rule:
    """Either product has an addend, q on the side `first` and c on the side `last`: both are added to both."""
    one = PBin("add", d, *((q, p) if first == "left" else (p, q)))
    two = PBin("add", d, *((u, r) if last == "left" else (r, u)))
    rhs = PBin("add", d, PBin("add", d, p, r), PBin("add", d, q, u))
    when = (Reduced(p), Reduced(r), accumulates_exactly(d))
    equation = "(p + q) + (r + u) ≈ (p + r) + (q + u)"
    name = f"pass_over_addends_{first}_{last}"
    return Rule(name, FAMILY, equation, PBin("add", d, one, two), rhs, when, Exactness.ROUNDING)


RULES = (
    *map(_collect, _SIDES),
    *(_expand(*sides) for sides in product(_SIDES, _SIDES)),
    _add_before_rounding(),
    *(_pass_over(*sides) for sides in product(_SIDES, _SIDES)),
    *(_pass_over_two(*sides) for sides in product(_SIDES, _SIDES)),
)
