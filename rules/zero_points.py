"""Zero points: an integer that is the same in all terms leaves a product of integers, (p ± B)·Q = p·Q ± B·(ΣQ).

A product of quantized tensors subtracts a zero point from both operands. Once the zero points have left the product,
the product multiplies the stored 8-bit numbers, as matrix registers do, and only sums of rows and columns remain.
Integers wrap, so that both sides have the same bits.
"""

from __future__ import annotations

from ir.term.language import Contract, EBin, Fin, Imm, Load, PBin, Pure, Reduce, Store, Term
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.primitives import invariant, one_of, outer_sizes, typed
from rules.sides import SIDES, on_side
from rules.totals import total

FAMILY = "zero_points"

B, Q, p, b, q, o, d, k, s, v = pattern_variables("B:B Q:B p:P b:S q:S o:S d:S k:S s:S v:S")


def _leave_product(side: str, kind: str, zero: Term, outside: Term) -> Rule:
    """`zero` stands in the operand on this side, and is `outside` of the sum the same."""
    summed = Store(Fin(Reduce("sum", d, k, Load(Q, total("first", q, q, k)))), typed(d, total("sizes", q, q, k)))
    offset = PBin("mul", d, outside, Load(summed, total("read", q, q, k)))
    lhs = Fin(Contract(d, k, PBin(o, d, p, zero), Load(Q, q)))
    rhs = EBin(o, d, Fin(Contract(d, k, p, Load(Q, q))), Pure(offset))
    when = (one_of(d, "i32"), one_of(o, "add sub"))
    return on_side(side, Rule(f"zero_{kind}_of_{side}_operand", FAMILY, "", lhs, rhs, when, Exactness.EXACT))


RULES = (
    *(_leave_product(side, "point", Load(B, b), Load(B, invariant(b, k))) for side in SIDES),
    *(_leave_product(side, "number", Imm(d, v, s), Imm(d, v, outer_sizes(q, k))) for side in SIDES),
)
