"""Algebra of numbers: constants fold and gather on the right, identities and double signs vanish.

Every rule leads to fewer or cheaper ops, or moves a constant to the right, so that the rules come to an end. Only
constants associate and distribute. Adding +0 changes −0, so that it is no exact identity.
"""

from __future__ import annotations

from ir.term.language import App, Imm, Load, PBin, PUn, Term
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.analyses import BufDtype
from rules.constants import (
    all_ones,
    associates_exactly,
    exact_reciprocal,
    fold_binary,
    fold_unary,
    is_discrete,
    is_float,
    is_highest,
    is_lowest,
    mirrored,
    negative,
    of_equals,
    positive,
    power_of_two_mask,
    product_of_divisors,
    reciprocal,
    regroup,
)
from rules.primitives import accumulates_exactly, domain, one_of

FAMILY = "algebra"

T, p, q, m, o, f, c, d, k, u, v, w = pattern_variables("T:B p:P q:P m:S o:S f:S c:S d:S k:S u:S v:S w:S")


def _op(name: str, *operands: Term) -> App:
    """An op within one dtype."""
    return (PUn if len(operands) == 1 else PBin)(name, d, *operands)


def _number(text: Term) -> App:
    return Imm(d, text, k)


_v = _number(v)
_zero, _one = _number("0"), _number("1")
_wide_p, _wide_q = (PUn("cast", "fp32", operand) for operand in (p, q))
_minus_p, _minus_q = _op("neg", p), _op("neg", q)

_CONSTANTS = (
    Rule("fold_unary", FAMILY, "o(u) = the number o(u)",
         PUn(o, d, Imm(c, u, k)), _number(fold_unary(o, d, c, u))),
    Rule("fold_binary", FAMILY, "u ∘ v = the number u ∘ v",
         PBin(o, d, Imm(c, u, k), Imm(c, v, k)), _number(fold_binary(o, d, c, u, v))),
    Rule("number_to_the_right", FAMILY, "v ∘ p = p ∘ v",
         PBin(o, d, Imm(c, v, k), p), PBin(o, d, p, Imm(c, v, k)),
         (one_of(o, "add mul max min and or xor cmpeq cmpne"),)),
    Rule("compare_to_the_right", FAMILY, "v ∘ p = p ∘′ v, as v < p is p > v",
         PBin(o, d, Imm(c, v, k), p), PBin(mirrored(o), d, p, Imm(c, v, k)), (one_of(o, "cmplt cmple cmpgt cmpge"),)),
    Rule("subtract_a_number", FAMILY, "p − v = p + (−v)",
         _op("sub", p, _v), _op("add", p, _number(negative(d, v)))),
    Rule("divide_by_power_of_two", FAMILY, "p / v = p·(1/v), v is ±2ⁿ",
         _op("fdiv", p, _v), _op("mul", p, _number(exact_reciprocal(d, v)))),
    Rule("quotient_by_power_of_two", FAMILY, "p / v = p·(1/v), v is ±2ⁿ",
         _op("quotient", p, _v), _op("mul", p, _number(exact_reciprocal(d, v)))),
    Rule("divide_by_number", FAMILY, "p / v ≈ p·(1/v)",
         _op("fdiv", p, _v), _op("mul", p, _number(reciprocal(d, v))), (accumulates_exactly(d),), Exactness.ROUNDING),
    Rule("regroup_exactly", FAMILY, "(p ∘ u) ∘ v = p ∘ (u ∘ v)",
         PBin(o, d, PBin(o, d, p, _number(u)), _v), PBin(o, d, p, _number(fold_binary(o, d, d, u, v))),
         (associates_exactly(o, d),)),
    Rule("regroup_numbers", FAMILY, "(p ∘ u) ∘ v ≈ p ∘ (u ∘ v), ∘ is + or ·",
         PBin(o, d, PBin(o, d, p, _number(u)), _v), PBin(o, d, p, _number(regroup(o, d, u, v))),
         (one_of(o, "add mul"), accumulates_exactly(d), is_float(d)), Exactness.REASSOCIATE),
    Rule("number_into_scaled_sum", FAMILY, "(p·u + q·w)·v ≈ p·(u·v) + q·(w·v)",
         _op("mul", _op("add", _op("mul", p, _number(u)), _op("mul", q, _number(w))), _v),
         _op("add", _op("mul", p, _number(regroup("mul", d, u, v))), _op("mul", q, _number(regroup("mul", d, w, v)))),
         (accumulates_exactly(d), is_float(d)), Exactness.ROUNDING),
    Rule("number_through_relu", FAMILY, "relu(p)·v = relu(p·v), v > 0",
         _op("mul", _op("relu", p), _v), _op("relu", _op("mul", p, _v)), (positive(v), is_float(d))),
    Rule("divide_twice", FAMILY, "⌊⌊p / u⌋ / v⌋ = ⌊p / (u·v)⌋, u > 0, v > 0",
         _op("idiv", _op("idiv", p, _number(u)), _v), _op("idiv", p, _number(product_of_divisors(d, u, v)))),
    Rule("remainder_by_power_of_two", FAMILY, "p mod v = p ∧ (v − 1), v is 2ⁿ",
         _op("mod", p, _v), _op("and", p, _number(power_of_two_mask(v)))),
)  # fmt: skip

_IDENTITIES = (
    Rule("add_zero", FAMILY, "p + (−0) = p",
         _op("add", p, _v), p, (one_of(v, "-0.0 0"),)),
    Rule("add_positive_zero", FAMILY, "p + 0 ≈ p, −0 + 0 is 0",
         _op("add", p, _number("0.0")), p, exactness=Exactness.ROUNDING),
    Rule("mul_one", FAMILY, "p·1 = p",
         _op("mul", p, _v), p, (one_of(v, "1 1.0"),)),
    Rule("divide_by_one", FAMILY, "⌊p / 1⌋ = p",
         _op("idiv", p, _one), p),
    Rule("power_one", FAMILY, "p^1 = p",
         _op("pow", p, _number("1.0")), p),
    Rule("max_lowest", FAMILY, "max(p, lowest) = p",
         _op("max", p, _v), p, (is_lowest(d, v),)),
    Rule("min_highest", FAMILY, "min(p, highest) = p",
         _op("min", p, _v), p, (is_highest(d, v),)),
    Rule("and_ones", FAMILY, "p ∧ ¬0 = p",
         _op("and", p, _v), p, (all_ones(d, v),)),
    Rule("or_zero", FAMILY, "p ∘ 0 = p, ∘ is or, xor",
         PBin(o, d, p, _v), p, (one_of(o, "or xor"), one_of(v, "0 false"))),
)  # fmt: skip

_ANNIHILATORS = (
    Rule("mul_zero", FAMILY, "p·0 = 0, of integers",
         _op("mul", p, _zero), _zero),
    Rule("and_zero", FAMILY, "p ∧ 0 = 0",
         _op("and", p, _v), _v, (one_of(v, "0 false"),)),
    Rule("or_ones", FAMILY, "p ∨ ¬0 = ¬0",
         _op("or", p, _v), _v, (all_ones(d, v),)),
    Rule("remainder_by_one", FAMILY, "p mod 1 = 0",
         _op("mod", p, _one), _zero),
    Rule("power_zero", FAMILY, "p^0 = 1, of NaN too",
         _op("pow", p, _v), _number("1.0"), (one_of(v, "0.0 -0.0"),)),
    Rule("max_highest", FAMILY, "max(p, highest) = highest, of integers",
         _op("max", p, _v), _v, (is_highest(d, v), is_discrete(d))),
    Rule("min_lowest", FAMILY, "min(p, lowest) = lowest, of integers",
         _op("min", p, _v), _v, (is_lowest(d, v), is_discrete(d))),
)  # fmt: skip

_EQUALS = (
    Rule("max_of_equals", FAMILY, "max(p, p) = p", _op("max", p, p), p),
    Rule("min_of_equals", FAMILY, "min(p, p) = p", _op("min", p, p), p),
    Rule("and_of_equals", FAMILY, "p ∧ p = p", _op("and", p, p), p),
    Rule("or_of_equals", FAMILY, "p ∨ p = p", _op("or", p, p), p),
    Rule("idempotent_unary", FAMILY, "o(o(p)) = o(p)",
         PUn(o, d, PUn(o, d, p)), PUn(o, d, p), (one_of(o, "relu abs floor ceil round"),)),
    Rule("round_whole", FAMILY, "o(f(p)) = f(p), both round to whole numbers",
         PUn(o, d, PUn(f, d, p)), PUn(f, d, p), (one_of(o, "floor ceil round"), one_of(f, "floor ceil round"))),
    Rule("sign_of_nonnegative", FAMILY, "o(f(p)) = f(p), o alters negative numbers alone, f(p) is none",
         PUn(o, d, PUn(f, d, p)), PUn(f, d, p),
         (one_of(o, "relu abs"), one_of(f, "abs relu exp exp2 sigmoid"), is_float(d))),
    Rule("relu_below_bound", FAMILY, "max(round(relu(p)), 0) = max(round(p), 0)",
         _op("max", _op("round", _op("relu", p)), _number("0.0")), _op("max", _op("round", p), _number("0.0"))),
    Rule("extremum_of_extremum", FAMILY, "(p ∘ q) ∘ q = p ∘ q, ∘ is max, min, and, or",
         PBin(o, d, PBin(o, d, p, q), q), PBin(o, d, p, q), (one_of(o, "max min and or"),)),
)  # fmt: skip

_SIGNS = (
    Rule("involution", FAMILY, "o(o(p)) = p, o is neg, not",
         PUn(o, d, PUn(o, d, p)), p, (one_of(o, "neg not"),)),
    Rule("add_negative", FAMILY, "p + (−q) = p − q",
         _op("add", p, _minus_q), _op("sub", p, q)),
    Rule("negative_plus", FAMILY, "(−p) + q = q − p",
         _op("add", _minus_p, q), _op("sub", q, p)),
    Rule("subtract_negative", FAMILY, "p − (−q) = p + q",
         _op("sub", p, _minus_q), _op("add", p, q)),
    Rule("subtract_from_zero", FAMILY, "(−0) − p = −p",
         _op("sub", _v, p), _op("neg", p), (one_of(v, "-0.0 0"),)),
    Rule("subtract_from_positive_zero", FAMILY, "0 − p ≈ −p, 0 − 0 is 0",
         _op("sub", _number("0.0"), p), _op("neg", p), exactness=Exactness.REASSOCIATE),
    Rule("negative_difference", FAMILY, "−(p − q) ≈ q − p, of equals −0 becomes 0",
         _op("neg", _op("sub", p, q)), _op("sub", q, p), exactness=Exactness.REASSOCIATE),
    Rule("mul_minus_one", FAMILY, "p·(−1) = −p",
         _op("mul", p, _v), _op("neg", p), (one_of(v, "-1 -1.0"),)),
    Rule("negative_times_number", FAMILY, "(−p)·v = p·(−v)",
         _op("mul", _minus_p, _v), _op("mul", p, _number(negative(d, v)))),
    Rule("negative_of_product", FAMILY, "−(p·v) = p·(−v)",
         _op("neg", _op("mul", p, _v)), _op("mul", p, _number(negative(d, v)))),
    Rule("product_of_negatives", FAMILY, "(−p) ∘ (−q) = p ∘ q, ∘ is · or /",
         PBin(o, d, _minus_p, _minus_q), PBin(o, d, p, q), (one_of(o, "mul fdiv quotient"),)),
    Rule("even_of_negative", FAMILY, "o(−p) = o(p), o is abs, cos",
         PUn(o, d, _minus_p), PUn(o, d, p), (one_of(o, "abs cos"), is_float(d))),
    Rule("square_of_absolute", FAMILY, "|p|·|p| = p·p",
         _op("mul", _op("abs", p), _op("abs", p)), _op("mul", p, p)),
)  # fmt: skip

_QUOTIENTS = (
    Rule("one_over", FAMILY, "1 / p = recip(p)",
         _op("fdiv", _number("1.0"), p), _op("recip", p)),
    Rule("quotient", FAMILY, "p / q ≈ p·recip(q)",
         _op("fdiv", p, q), _op("mul", p, _op("recip", q)), (accumulates_exactly(d),), Exactness.ROUNDING),
    Rule("narrow_quotient", FAMILY, "p / q ≈ d(fp32(p)·recip(fp32(q)))",
         _op("fdiv", p, q), PUn("cast", d, PBin("mul", "fp32", _wide_p, PUn("recip", "fp32", _wide_q))),
         (one_of(d, "fp16 bf16"),), Exactness.ROUNDING),
)  # fmt: skip
"""The reciprocal of a normal number is finite. It is normal, too, but for numbers above 2¹²⁶ in fp32: dtypes narrower
than fp32 are divided in fp32."""

_OF_READS = (
    Rule("op_of_equals", FAMILY, "T[m(i)] ∘ T[m(i)] = a number, ∘ is −, xor or a comparison",
         PBin(o, d, Load(T, m), Load(T, m)), Imm(d, of_equals(o, BufDtype(T)), domain(m))),
)  # fmt: skip
"""The operands are reads, since the domain of a read is known."""

RULES = (*_CONSTANTS, *_IDENTITIES, *_ANNIHILATORS, *_EQUALS, *_SIGNS, *_QUOTIENTS, *_OF_READS)
