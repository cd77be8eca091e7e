"""Contraction: a sum of products becomes one operation, which does not round the products.

A product whose dtype is its own accumulator (fp32, fp64, integers) is only regrouped, and integers wrap alike in any
order. For narrower floats, and through a CAST of the product or of an operand, a rounding disappears. Integer products
wrap, so that a CAST of them stays. A sum of one term is that term (`rules.broadcast`) and no contraction: the term is a
view of the sum, and the rules would read the sum through that view forever.
"""

from __future__ import annotations

from ir.term.language import Contract, PBin, PUn, Reduce
from ir.term.rule import Condition, Exactness, Rule, pattern_variables
from rules.analyses import ProDtype
from rules.primitives import accumulates, accumulates_exactly, one_of, reduces, widening_cast
from rules.sides import SIDES, on_side

FAMILY = "contraction"

p, q, c, d, k, w = pattern_variables("p:P q:P c:S d:S k:S w:S")


def _drop_cast(side: str, kind: str, when: tuple[Condition, ...], level: Exactness) -> Rule:
    """The operand on this side is read as it was before its cast."""
    name = f"drop_{kind}_cast_{side}"
    return on_side(
        side, Rule(name, FAMILY, "", Contract(d, k, PUn("cast", c, p), q), Contract(d, k, p, q), when, level)
    )


RULES = (
    Rule("sum_of_products", FAMILY, "Σₖ p·q ≈ contract(p, q)",
         Reduce("sum", d, k, PBin("mul", d, p, q)), Contract(d, k, p, q),
         (accumulates_exactly(d), reduces(k)), Exactness.REASSOCIATE),
    Rule("sum_of_integer_products", FAMILY, "Σₖ p·q = contract(p, q)",
         Reduce("sum", d, k, PBin("mul", d, p, q)), Contract(d, k, p, q),
         (one_of(d, "i8 u8 i16 u16 i32 u32 i64 u64"), reduces(k))),
    Rule("sum_of_narrow_products", FAMILY, "Σₖ p·q ≈ contract(p, q), p·q was rounded to c",
         Reduce("sum", d, k, PBin("mul", c, p, q)), Contract(d, k, p, q),
         (accumulates(c, d), reduces(k)), Exactness.ROUNDING),
    Rule("sum_of_cast_products", FAMILY, "Σₖ w(p·q) ≈ Σₖ p·q, p·q was rounded to c",
         Reduce("sum", d, k, PUn("cast", w, PBin("mul", c, p, q))), Contract(d, k, p, q),
         (accumulates(c, d), accumulates(w, d), reduces(k)), Exactness.ROUNDING),
    *(_drop_cast(side, "widening", (widening_cast(ProDtype(p), c), accumulates(c, d)), Exactness.EXACT)
      for side in SIDES),
    *(_drop_cast(side, "narrowing", (one_of(c, "fp16 bf16"), accumulates(ProDtype(p), d)), Exactness.ROUNDING)
      for side in SIDES),
)  # fmt: skip
