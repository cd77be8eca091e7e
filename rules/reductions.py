"""Reductions: nested ones become one, and what does not change along the reduced axes is computed once outside.

A factor moves out of a sum and may take the overflow with it, so floats narrower than their accumulator move theirs
in the accumulator. An addend moves out only where the source could cancel as well: in integers, or at level `range`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ir.term.language import App, Contract, EBin, EUn, Fin, Imm, Load, PBin, PUn, Pure, PView, Reduce, Store, Term
from ir.term.rule import Condition, Exactness, Rule, pattern_variables
from rules.analyses import Inlined, ProDtype
from rules.constants import below_zero, finite, is_float, positive, times
from rules.primitives import (
    accumulates,
    accumulates_exactly,
    fill_of_reduction,
    invariant,
    joined,
    non_expanding,
    nonempty,
    one_of,
    widening_cast,
    without_last,
    without_unit,
)

FAMILY = "reductions"

b, p, q, o, f, c, d, j, k, m, s, t, v = pattern_variables("b:B p:P q:P o:S f:S c:S d:S j:S k:S m:S s:S t:S v:S")
EXACT, REASSOCIATE, ROUNDING, RANGE = Exactness


def _rule(name: str, equation: str, lhs: App, rhs: Term, when: tuple[Condition, ...], level: Exactness = EXACT) -> Rule:
    return Rule(name, FAMILY, equation, lhs, rhs, when, level)


def _reduced(op: Term, value: Term, element: Term = d) -> App:
    return Fin(Reduce(op, element, k, value))


_INTEGERS = "i8 u8 i16 i32 i64"
_v, _read = Imm(d, v, s), Load(b, m)
_outer_v, _outer_read = Pure(Imm(d, v, without_last(s, k))), Pure(Load(b, invariant(m, k)))
_sum, _extremum = _reduced("sum", p), _reduced(o, p)
_is_extremum = one_of(o, "max min")
_exact_sum = (accumulates_exactly(d), is_float(d))

_inner = Load(Store(Fin(Reduce(o, d, j, p)), t), m)
_merged = Reduce(o, d, joined(k, j), PView(p, fill_of_reduction(m, o, d, j, ProDtype(p))))
_may_merge = (without_unit(k), without_unit(j), non_expanding(m), Inlined(Store(Fin(Reduce(o, d, j, p)), t)))
"""Over an axis of size 1 a value may be its own reduction, and would be merged with itself for ever."""


def _merge(name: str, when: tuple[Condition, ...], level: Exactness) -> Rule:
    equation = "⊕ₖ (⊕ⱼ p(i, j)) at m(i, k) = ⊕ₖⱼ p(m(i, k), j)"
    return _rule(name, equation, Reduce(o, d, k, _inner), _merged, (*when, *_may_merge), level)


_NESTED = (
    _merge("nested_extrema", (_is_extremum,), EXACT),
    _merge("nested_integer_sums", (one_of(o, "sum prod"), one_of(d, _INTEGERS)), EXACT),
    _merge("nested_sums", (one_of(o, "sum prod"), is_float(d)), ROUNDING),
)

_FACTORS = (
    _rule("integer_factor_of_sum", "Σ p·v = (Σ p)·v in integers",
          _reduced("sum", PBin("mul", d, p, _v)), EBin("mul", d, _sum, _outer_v), (one_of(d, _INTEGERS),)),
    _rule("factor_of_sum", "Σ p·v ≈ (Σ p)·v",
          _reduced("sum", PBin("mul", d, p, _v)), EBin("mul", d, _sum, _outer_v), (*_exact_sum, finite(v)),
          REASSOCIATE),
    _rule("factor_of_narrow_sum", "Σ round(p·v) ≈ cast((Σ p)·v)",
          _reduced("sum", PBin("mul", c, p, Imm(c, v, s))),
          EUn("cast", d, EBin("mul", "fp32", _reduced("sum", p, "fp32"), Pure(Imm("fp32", v, without_last(s, k))))),
          (one_of(c, "fp16 bf16"), one_of(d, "fp16 bf16 fp32"), finite(v)), ROUNDING),
    _rule("negative_of_sum", "Σ −p = −Σ p", _reduced("sum", PUn("neg", d, p)), EUn("neg", d, _sum),
          _exact_sum, REASSOCIATE),
    _rule("invariant_factor_right", "Σₖ p·T[m(i)] ≈ (Σₖ p)·T[m(i)]",
          _reduced("sum", PBin("mul", d, p, _read)), EBin("mul", d, _sum, _outer_read), _exact_sum, REASSOCIATE),
    _rule("invariant_factor_left", "Σₖ T[m(i)]·p ≈ T[m(i)]·Σₖ p",
          _reduced("sum", PBin("mul", d, _read, p)), EBin("mul", d, _outer_read, _sum), _exact_sum, REASSOCIATE),
    _rule("invariant_divisor", "Σₖ p / T[m(i)] ≈ (Σₖ p) / T[m(i)]",
          _reduced("sum", PBin("fdiv", d, p, _read)), EBin("fdiv", d, _sum, _outer_read), _exact_sum, REASSOCIATE),
)  # fmt: skip


def _contraction(
    op: str, factor: App, outside: App, left: bool, narrow: bool
) -> tuple[App, App, tuple[Condition, ...]]:
    """A factor or divisor of one operand of a contraction moves out. Out of a narrow operand it moves in fp32, as the
    contraction is accumulated: there the sum overflows no earlier than the rounded products did."""
    scaled = PBin(op, c if narrow else d, p, factor)
    lhs = Fin(Contract(d, k, *((scaled, q) if left else (q, scaled))))
    plain = (p, q) if left else (q, p)
    if not narrow:
        return lhs, EBin(op, d, Fin(Contract(d, k, *plain)), outside), _exact_sum
    wide = EBin(op, "fp32", Fin(Contract("fp32", k, *plain)), EUn("cast", "fp32", outside))
    return lhs, EUn("cast", d, wide), (one_of(c, "fp16 bf16"), one_of(d, "fp16 bf16 fp32"))


def _of_contractions(narrow: bool) -> Iterator[Rule]:
    element = c if narrow else d
    number = Imm(element, v, s), Pure(Imm(element, v, without_last(s, k)))
    for name, left, right, op, factor, outside in (
        ("factor", "(p·v)", "(Σₖ p·q)·v", "mul", *number),
        ("invariant", "(p·T[m(i)])", "(Σₖ p·q)·T[m(i)]", "mul", _read, _outer_read),
        ("divisor", "(p / T[m(i)])", "(Σₖ p·q) / T[m(i)]", "fdiv", _read, _outer_read),
    ):
        equation = f"Σₖ round{left}·q ≈ cast({right})" if narrow else f"Σₖ {left}·q ≈ {right}"
        for side in ("left", "right"):
            lhs, rhs, when = _contraction(op, factor, outside, side == "left", narrow)
            when = (*when, finite(v)) if name == "factor" else when
            level = ROUNDING if narrow else REASSOCIATE
            yield _rule(f"{name}_of_{'narrow_' * narrow}{side}_operand", equation, lhs, rhs, when, level)


_OF_CONTRACTIONS = (*_of_contractions(narrow=False), *_of_contractions(narrow=True))

_ADDENDS = (
    _rule("integer_addend_of_sum", "Σ_{k<n} (p + v) = Σ p + n·v in integers",
          _reduced("sum", PBin("add", d, p, _v)),
          EBin("add", d, _sum, Pure(Imm(d, times(v, k, d), without_last(s, k)))), (one_of(d, _INTEGERS),)),
    _rule("addend_of_sum", "Σ_{k<n} (p + v) ≈ Σ p + n·v",
          _reduced("sum", PBin("add", d, p, _v)),
          EBin("add", d, _sum, Pure(Imm(d, times(v, k, d), without_last(s, k)))), (*_exact_sum, finite(v)), RANGE),
    _rule("sum_of_number", "Σ_{k<n} v ≈ n·v",
          _reduced("sum", _v), Pure(Imm(d, times(v, k, d), without_last(s, k))),
          (accumulates_exactly(d),), REASSOCIATE),
)  # fmt: skip

_OPPOSITES = (("max", "min"), ("min", "max"))
_EXTREMA = (
    _rule("extremum_of_number", "max v = v", _reduced(o, _v), _outer_v, (_is_extremum, nonempty(k))),
    _rule("positive_factor_of_extremum", "max p·v = (max p)·v, v > 0",
          _reduced(o, PBin("mul", d, p, _v)), EBin("mul", d, _extremum, _outer_v),
          (_is_extremum, positive(v), is_float(d))),
    *(_rule(f"negative_factor_of_{op}", f"{op} p·v = ({other} p)·v, v < 0",
            _reduced(op, PBin("mul", d, p, _v)), EBin("mul", d, _reduced(other, p), _outer_v),
            (below_zero(v), is_float(d))) for op, other in _OPPOSITES),
    *(_rule(f"negative_of_{op}", f"{op} −p = −{other} p",
            _reduced(op, PUn("neg", d, p)), EUn("neg", d, _reduced(other, p)),
            (is_float(d),)) for op, other in _OPPOSITES),
    _rule("addend_of_extremum", "max (p + v) = (max p) + v",
          _reduced(o, PBin("add", d, p, _v)), EBin("add", d, _extremum, _outer_v),
          (_is_extremum, finite(v), is_float(d))),
    _rule("invariant_addend_of_extremum", "maxₖ (p ± T[m(i)]) ≈ (maxₖ p) ± T[m(i)]",
          _reduced(o, PBin(f, d, p, _read)), EBin(f, d, _extremum, _outer_read),
          (_is_extremum, one_of(f, "add sub"), is_float(d), nonempty(k)), REASSOCIATE),
    _rule("rising_op_of_extremum", "max o(p) = o(max p), o rises",
          _reduced(o, PUn(f, d, p)), EUn(f, d, _extremum),
          (_is_extremum, one_of(f, "relu floor ceil round"), nonempty(k))),
    _rule("rising_function_of_extremum", "max o(p) ≈ o(max p), o rises",
          _reduced(o, PUn(f, d, p)), EUn(f, d, _extremum),
          (_is_extremum, one_of(f, "exp exp2 tanh sigmoid erf"), nonempty(k)), ROUNDING),
    _rule("cast_of_extremum", "max cast(p) = cast(max p) for floats",
          _reduced(o, PUn("cast", d, p)), EUn("cast", d, _reduced(o, p, ProDtype(p))),
          (_is_extremum, is_float(d), is_float(ProDtype(p)))),
)  # fmt: skip
"""Rounding keeps order, so the greatest of rounded values is the rounded greatest. Of no element the result is the
lowest value itself: −∞, which only some ops keep."""

_CASTS = (
    _rule("reduce_widening_cast", "⊕ cast(p) = ⊕ p, accumulated as wide",
          Reduce(o, d, k, PUn("cast", c, p)), Reduce(o, d, k, p), (widening_cast(ProDtype(p), c), accumulates(c, d))),
)  # fmt: skip

RULES = (*_NESTED, *_FACTORS, *_OF_CONTRACTIONS, *_ADDENDS, *_EXTREMA, *_CASTS)
