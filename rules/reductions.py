"""Reductions: nested reductions become one, and a part that the reduced axes do not change leaves the reduction.

A factor that leaves a sum may take an overflow with it. In floats narrower than their accumulator the factor is
therefore multiplied in the accumulator's dtype. The number 0 stays in its sum: 0·∞ would be NaN where the rest of the
sum overflows, as it is where a factor that is read from a tensor is 0. An addend leaves a sum only where the source
could cancel as well: in integers, or at level `range`.
"""

from __future__ import annotations

from ir.term.language import App, Contract, EBin, EUn, Fin, Imm, Load, PBin, PUn, Pure, PView, Reduce, Store, Term
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.analyses import Inlined, ProDtype
from rules.constants import below_zero, finite, is_float, is_scale, positive, times
from rules.primitives import (
    accumulates_exactly,
    fill_of_reduction,
    invariant,
    joined,
    non_expanding,
    nonempty,
    one_of,
    totals_alike,
    widening_cast,
    without_last,
    without_unit,
)
from rules.sides import SIDES, on_side

FAMILY = "reductions"

T, p, q, o, f, c, d, j, k, m, s, t, v = pattern_variables("T:B p:P q:P o:S f:S c:S d:S j:S k:S m:S s:S t:S v:S")
REASSOCIATE, ROUNDING, RANGE = Exactness.REASSOCIATE, Exactness.ROUNDING, Exactness.RANGE


def _reduce(op: Term, value: Term, element: Term = d) -> App:
    return Fin(Reduce(op, element, k, value))


_INTEGERS = "i8 u8 i16 u16 i32 u32 i64 u64"
_v, _read = Imm(d, v, s), Load(T, m)
_outer_v, _outer_read = Pure(Imm(d, v, without_last(s, k))), Pure(Load(T, invariant(m, k)))
_sum, _extremum = _reduce("sum", p), _reduce(o, p)
_is_extremum = one_of(o, "max min")
_exact_sum = (accumulates_exactly(d), is_float(d))

_stored = Store(Fin(Reduce(o, d, j, p)), t)
_nested = Reduce(o, d, k, Load(_stored, m))
_joint = Reduce(o, d, joined(k, j), PView(p, fill_of_reduction(m, o, d, j, ProDtype(p))))
_may_merge = (without_unit(k), without_unit(j), non_expanding(m), Inlined(_stored))
"""Over an axis of size 1 a value may be its own reduction: the rule would merge that reduction with itself forever."""

_NESTED = (
    Rule("nested_extrema", FAMILY, "maxₖ {maxⱼ p}[m(i, k)] = maxₖⱼ p(m(i, k), j)",
         _nested, _joint, (_is_extremum, *_may_merge)),
    Rule("nested_integer_sums", FAMILY, "⊕ₖ {⊕ⱼ p}[m(i, k)] = ⊕ₖⱼ p(m(i, k), j), ⊕ is Σ, Π of integers",
         _nested, _joint, (one_of(o, "sum prod"), one_of(d, _INTEGERS), *_may_merge)),
    Rule("nested_sums", FAMILY, "⊕ₖ {⊕ⱼ p}[m(i, k)] ≈ ⊕ₖⱼ p(m(i, k), j), ⊕ is Σ, Π",
         _nested, _joint, (one_of(o, "sum prod"), is_float(d), *_may_merge), ROUNDING),
)  # fmt: skip

_FACTORS = (
    Rule("integer_factor_of_sum", FAMILY, "Σₖ p·v = (Σₖ p)·v, of integers",
         _reduce("sum", PBin("mul", d, p, _v)), EBin("mul", d, _sum, _outer_v), (one_of(d, _INTEGERS),)),
    Rule("factor_of_sum", FAMILY, "Σₖ p·v ≈ (Σₖ p)·v",
         _reduce("sum", PBin("mul", d, p, _v)), EBin("mul", d, _sum, _outer_v), (*_exact_sum, is_scale(v)),
         REASSOCIATE),
    Rule("factor_of_narrow_sum", FAMILY, "Σₖ p·v ≈ d((Σₖ p)·v), p·v was rounded to c",
         _reduce("sum", PBin("mul", c, p, Imm(c, v, s))),
         EUn("cast", d, EBin("mul", "fp32", _reduce("sum", p, "fp32"), Pure(Imm("fp32", v, without_last(s, k))))),
         (one_of(c, "fp16 bf16"), one_of(d, "fp16 bf16 fp32"), is_scale(v)), ROUNDING),
    Rule("negative_of_sum", FAMILY, "Σₖ (−p) ≈ −(Σₖ p)",
         _reduce("sum", PUn("neg", d, p)), EUn("neg", d, _sum), _exact_sum, REASSOCIATE),
    Rule("invariant_factor_right", FAMILY, "Σₖ p·T[m(i, k)] ≈ (Σₖ p)·T[m(i)]",
         _reduce("sum", PBin("mul", d, p, _read)), EBin("mul", d, _sum, _outer_read), _exact_sum, REASSOCIATE),
    Rule("invariant_factor_left", FAMILY, "Σₖ T[m(i, k)]·p ≈ T[m(i)]·(Σₖ p)",
         _reduce("sum", PBin("mul", d, _read, p)), EBin("mul", d, _outer_read, _sum), _exact_sum, REASSOCIATE),
    Rule("invariant_divisor", FAMILY, "Σₖ p / T[m(i, k)] ≈ (Σₖ p) / T[m(i)]",
         _reduce("sum", PBin("fdiv", d, p, _read)), EBin("fdiv", d, _sum, _outer_read), _exact_sum, REASSOCIATE),
)  # fmt: skip
"""m(i, k) is m(i), since m does not depend on k."""


def _of_contraction(kind: str, narrow: bool, side: str) -> Rule:
    """A factor or divisor of the operand on this side leaves the contraction. It leaves a narrow operand in fp32, in
    which the contraction is accumulated: there the sum overflows no earlier than the rounded products did."""
    element, op = c if narrow else d, "fdiv" if kind == "divisor" else "mul"
    number, outer_number = Imm(element, v, s), Pure(Imm(element, v, without_last(s, k)))
    factor, outside = (number, outer_number) if kind == "factor" else (_read, _outer_read)
    lhs = Fin(Contract(d, k, PBin(op, element, p, factor), q))
    rhs = EBin(op, d, Fin(Contract(d, k, p, q)), outside)
    if narrow:
        wide = EBin(op, "fp32", Fin(Contract("fp32", k, p, q)), EUn("cast", "fp32", outside))
        rhs = EUn("cast", d, wide)
    dtypes = (one_of(c, "fp16 bf16"), one_of(d, "fp16 bf16 fp32")) if narrow else _exact_sum
    when = (*dtypes, is_scale(v)) if kind == "factor" else dtypes
    level = ROUNDING if narrow else REASSOCIATE
    return on_side(side, Rule(f"{kind}_of_{'narrow_' * narrow}{side}_operand", FAMILY, "", lhs, rhs, when, level))


_OF_CONTRACTIONS = tuple(
    _of_contraction(kind, narrow, side)
    for narrow in (False, True)
    for kind in ("factor", "invariant", "divisor")
    for side in SIDES
)

_ADDENDS = (
    Rule("integer_addend_of_sum", FAMILY, "Σₖ (p + v) = (Σₖ p) + n·v, of n integers",
         _reduce("sum", PBin("add", d, p, _v)),
         EBin("add", d, _sum, Pure(Imm(d, times(v, k, d), without_last(s, k)))), (one_of(d, _INTEGERS),)),
    Rule("addend_of_sum", FAMILY, "Σₖ (p + v) ≈ (Σₖ p) + n·v, of n terms",
         _reduce("sum", PBin("add", d, p, _v)),
         EBin("add", d, _sum, Pure(Imm(d, times(v, k, d), without_last(s, k)))), (*_exact_sum, finite(v)), RANGE),
    Rule("sum_of_number", FAMILY, "Σₖ v ≈ n·v, of n terms",
         _reduce("sum", _v), Pure(Imm(d, times(v, k, d), without_last(s, k))), (accumulates_exactly(d),),
         REASSOCIATE),
)  # fmt: skip

_EXTREMA = (
    Rule("extremum_of_number", FAMILY, "maxₖ v = v",
         _reduce(o, _v), _outer_v, (_is_extremum, nonempty(k))),
    Rule("positive_factor_of_extremum", FAMILY, "maxₖ p·v = (maxₖ p)·v, v > 0",
         _reduce(o, PBin("mul", d, p, _v)), EBin("mul", d, _extremum, _outer_v),
         (_is_extremum, positive(v), is_float(d))),
    Rule("negative_factor_of_max", FAMILY, "maxₖ p·v = (minₖ p)·v, v < 0",
         _reduce("max", PBin("mul", d, p, _v)), EBin("mul", d, _reduce("min", p), _outer_v),
         (below_zero(v), is_float(d))),
    Rule("negative_factor_of_min", FAMILY, "minₖ p·v = (maxₖ p)·v, v < 0",
         _reduce("min", PBin("mul", d, p, _v)), EBin("mul", d, _reduce("max", p), _outer_v),
         (below_zero(v), is_float(d))),
    Rule("negative_of_max", FAMILY, "maxₖ (−p) = −(minₖ p)",
         _reduce("max", PUn("neg", d, p)), EUn("neg", d, _reduce("min", p)), (is_float(d),)),
    Rule("negative_of_min", FAMILY, "minₖ (−p) = −(maxₖ p)",
         _reduce("min", PUn("neg", d, p)), EUn("neg", d, _reduce("max", p)), (is_float(d),)),
    Rule("addend_of_extremum", FAMILY, "maxₖ (p + v) = (maxₖ p) + v",
         _reduce(o, PBin("add", d, p, _v)), EBin("add", d, _extremum, _outer_v),
         (_is_extremum, finite(v), is_float(d))),
    Rule("invariant_addend_of_extremum", FAMILY, "maxₖ (p ± T[m(i, k)]) ≈ (maxₖ p) ± T[m(i)]",
         _reduce(o, PBin(f, d, p, _read)), EBin(f, d, _extremum, _outer_read),
         (_is_extremum, one_of(f, "add sub"), is_float(d), nonempty(k)), REASSOCIATE),
    Rule("rising_op_of_extremum", FAMILY, "maxₖ f(p) = f(maxₖ p), f rises",
         _reduce(o, PUn(f, d, p)), EUn(f, d, _extremum),
         (_is_extremum, one_of(f, "relu floor ceil round"), nonempty(k))),
    Rule("rising_function_of_extremum", FAMILY, "maxₖ f(p) ≈ f(maxₖ p), f rises",
         _reduce(o, PUn(f, d, p)), EUn(f, d, _extremum),
         (_is_extremum, one_of(f, "exp exp2 tanh sigmoid erf"), nonempty(k)), ROUNDING),
    Rule("cast_of_extremum", FAMILY, "maxₖ d(p) = d(maxₖ p), of floats",
         _reduce(o, PUn("cast", d, p)), EUn("cast", d, _reduce(o, p, ProDtype(p))),
         (_is_extremum, is_float(d), is_float(ProDtype(p)))),
)  # fmt: skip
"""max stands for min as well. Rounding keeps order, so the greatest of rounded values is the rounded greatest. Over no
element the result is the lowest value of the dtype, −∞, which only some ops keep."""

_CASTS = (
    Rule("reduce_widening_cast", FAMILY, "⊕ₖ c(p) = ⊕ₖ p, accumulated in d",
         Reduce(o, d, k, PUn("cast", c, p)), Reduce(o, d, k, p), (widening_cast(ProDtype(p), c), totals_alike(c, d))),
)  # fmt: skip

RULES = (*_NESTED, *_FACTORS, *_OF_CONTRACTIONS, *_ADDENDS, *_EXTREMA, *_CASTS)
