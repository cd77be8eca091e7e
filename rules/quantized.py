"""Quantized products: factors leave a product of short integers that were widened to floats, and integers multiply.

A dequantized tensor is (q − zero point)·scale. Once the scales have left a product of two such tensors, the product
multiplies and sums integers below 2⁹, and has no rounding before the last one: a sum of so few terms fits into 32 bits.
`rules.zero_points` then leaves the product of the stored 8-bit numbers.

Bytes that are dequantized and quantized again in the same way are the bytes: |q·v/v - q| is below 383·2⁻²², so that
rounding finds q; adding the zero point, and bounds that every byte keeps, change nothing.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import Contract, EBin, EUn, Fin, Imm, Load, PBin, PUn, Pure, Reduce, Store, Term
from ir.term.rule import Equal, Exactness, Rule, pattern_variables
from rules.analyses import BufDtype, Byte, ProDtype, Short
from rules.constants import finite, positive
from rules.equations import add_equation
from rules.primitives import (
    byte,
    compose,
    fill_of_windows,
    invariant,
    medium,
    no_byte_above,
    no_byte_below,
    one_of,
    outer_sizes,
    same_value,
    short_sum,
    without_last,
)
from rules.sides import SIDES, on_side, pair

FAMILY = "quantized"

B, p, q, y, b, k, s, v = pattern_variables("B:B p:P q:P y:P b:S k:S s:S v:S")
m, o, t, z = pattern_variables("m:S o:S t:S z:S")

_wide = PUn("cast", "fp32", p)


def _leave_product(side: str, place: str, kind: str, scale: Term, outside: Term) -> Rule:
    """`scale` stands beside the integers of the operand on this side, on the side `place`, and is `outside` of the sum
    the same."""
    scaled = PBin("mul", "fp32", *pair(place, _wide, scale))
    rhs = EBin("mul", "fp32", Fin(Contract("fp32", k, _wide, y)), Pure(outside))
    when = (Short(p),) if kind == "scale" else (Short(p), finite(v))
    name = f"{kind}_{'after' if place == 'left' else 'before'}_{side}_integers"
    return on_side(side, Rule(name, FAMILY, "", Fin(Contract("fp32", k, scaled, y)), rhs, when, Exactness.ROUNDING))


_again = PBin(o, "fp32", PBin("mul", "fp32", _wide, Imm("fp32", v, s)), Imm("fp32", v, s))
_centred = PUn("cast", "fp32", PBin("sub", "i32", p, Imm("i32", z, s)))

ROUND_TRIP = (
    Rule("rounded_again", FAMILY, "", PUn("round", "fp32", _again), _wide,
         (Short(p), one_of(o, "fdiv quotient"), medium(v))),
    Rule("zero_point_again", FAMILY, "", PBin("add", "fp32", _centred, Imm("fp32", v, s)), _wide,
         (Byte(p), byte(z), same_value(z, v))),
    Rule("bytes_above", FAMILY, "", PBin("max", "fp32", _wide, Imm("fp32", v, s)), _wide,
         (no_byte_below(ProDtype(p), v),)),
    Rule("bytes_below", FAMILY, "", PBin("min", "fp32", _wide, Imm("fp32", v, s)), _wide,
         (no_byte_above(ProDtype(p), v),)),
    Rule("bytes_again", FAMILY, "", PUn("cast", t, _wide), p, (one_of(t, "i8 u8"), Equal(ProDtype(p), t))),
)  # fmt: skip
"""Bytes that are dequantized and quantized again are the bytes, step by step."""

_dequantized = Store(Pure(PBin("mul", "fp32", PUn("cast", "fp32", Load(B, b)), Imm("fp32", v, s))), t)
_greatest = Fin(Reduce(o, BufDtype(B), k, Load(B, compose(b, fill_of_windows(m, o, BufDtype(B), k)))))

EXTREMUM = Rule(
    "extremum_of_dequantized", FAMILY, "max fp32(B)·v = fp32(max B)·v, v > 0",
    Fin(Reduce(o, "fp32", k, Load(_dequantized, m))),
    EBin("mul", "fp32", EUn("cast", "fp32", _greatest), Pure(Imm("fp32", v, outer_sizes(m, k)))),
    (one_of(o, "max min"), positive(v)),
)  # fmt: skip
"""The greatest of a window of an image is that of its integers. Padding, which is −∞, is then the least integer: every
window holds a pixel."""

RULES = (
    EXTREMUM,
    *(_leave_product(side, place, "scale", Load(B, b), Load(B, invariant(b, k)))
      for side, place in product(SIDES, SIDES)),
    *(_leave_product(side, place, "number", Imm("fp32", v, s), Imm("fp32", v, without_last(s, k)))
      for side, place in product(SIDES, SIDES)),
    Rule("product_of_short_integers", FAMILY, "fp32(p)·fp32(q) ≈ fp32(i32(p)·i32(q))",
         Fin(Contract("fp32", k, _wide, PUn("cast", "fp32", q))),
         EUn("cast", "fp32", Fin(Contract("i32", k, PUn("cast", "i32", p), PUn("cast", "i32", q)))),
         (Short(p), Short(q), short_sum(k)), Exactness.REASSOCIATE),
    *map(add_equation, ROUND_TRIP),
)  # fmt: skip
