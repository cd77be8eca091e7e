"""Elementary functions: inverse pairs vanish, compositions become one op, powers become products."""

from __future__ import annotations

from ir.term.language import App, Imm, PBin, Prim, PUn, Term
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.constants import is_number
from rules.primitives import accumulates_exactly, one_of

FAMILY = "elementary"

p, q, o, d, k, v = pattern_variables("p:P q:P o:S d:S k:S v:S")


def _op(name: Term, *operands: Term) -> App:
    """An op within one dtype."""
    return (PUn if len(operands) == 1 else PBin)(name, d, *operands)


def _number(text: Term) -> App:
    return Imm(d, text, k)


def _rounding(name: str, equation: str, lhs: App, rhs: Term, *when: Prim) -> Rule:
    return Rule(name, FAMILY, equation, lhs, rhs, when, Exactness.ROUNDING)


def _range(name: str, equation: str, lhs: App, rhs: Term, *when: Prim) -> Rule:
    return Rule(name, FAMILY, equation, lhs, rhs, when, Exactness.RANGE)


_v, _one = _number(v), _number("1.0")
_root = _op("sqrt", p)
_exp_p, _exp_q = _op("exp", p), _op("exp", q)

RULES = (
    _rounding("recip_of_recip", "recip(recip(p)) ≈ p",
              _op("recip", _op("recip", p)), p),
    _rounding("recip_of_sqrt", "recip(√p) ≈ rsqrt(p)",
              _op("recip", _op("sqrt", p)), _op("rsqrt", p)),
    _rounding("recip_of_rsqrt", "recip(rsqrt(p)) ≈ √p",
              _op("recip", _op("rsqrt", p)), _op("sqrt", p)),
    _rounding("recip_of_exp", "recip(o(p)) ≈ o(−p), o is exp, exp2",
              _op("recip", PUn(o, d, p)), PUn(o, d, _op("neg", p)), one_of(o, "exp exp2")),
    _rounding("sigmoid", "recip(exp(−p) + 1) ≈ sigmoid(p)",
              _op("recip", _op("add", _op("exp", _op("neg", p)), _one)), _op("sigmoid", p)),
    _rounding("exp2_of_scaled", "exp2(p·log₂e) ≈ exp(p)",
              _op("exp2", _op("mul", p, _v)), _exp_p, is_number(d, v, "log2_e"), accumulates_exactly(d)),
    _rounding("log2_scaled", "log2(p)·ln 2 ≈ log(p)",
              _op("mul", _op("log2", p), _v), _op("log", p), is_number(d, v, "ln_2"), accumulates_exactly(d)),
    _rounding("log_scaled", "log(p)·log₂e ≈ log2(p)",
              _op("mul", _op("log", p), _v), _op("log2", p), is_number(d, v, "log2_e"), accumulates_exactly(d)),
    _rounding("square", "p^2 ≈ p·p",
              _op("pow", p, _number("2.0")), _op("mul", p, p)),
    _rounding("cube", "p^3 ≈ (p·p)·p",
              _op("pow", p, _number("3.0")), _op("mul", _op("mul", p, p), p), accumulates_exactly(d)),
    _rounding("power_minus_one", "p^(−1) ≈ recip(p)",
              _op("pow", p, _number("-1.0")), _op("recip", p)),
    _rounding("power_of_two", "2^p ≈ exp2(p)",
              _op("pow", _number("2.0"), p), _op("exp2", p)),
    _rounding("power_half", "p^0.5 ≈ √p, of −∞ it becomes NaN",
              _op("pow", p, _number("0.5")), _op("sqrt", p)),
    _rounding("power_three_quarters", "p^0.75 ≈ √p·√√p, of −∞ it becomes NaN",
              _op("pow", p, _number("0.75")), _op("mul", _root, _op("sqrt", _root)), accumulates_exactly(d)),
    _range("power_minus_half", "p^(−0.5) ≈ rsqrt(p), of −∞ it becomes NaN",
           _op("pow", p, _number("-0.5")), _op("rsqrt", p)),
    _range("log_of_exp", "log(exp(p)) ≈ p",
           _op("log", _exp_p), p),
    _range("log2_of_exp2", "log2(exp2(p)) ≈ p",
           _op("log2", _op("exp2", p)), p),
    _range("log_of_quotient", "log(exp(p) / q) ≈ p + log(recip(q))",
           _op("log", _op("fdiv", _exp_p, q)), _op("add", p, _op("log", _op("recip", q)))),
    _range("product_of_exps", "exp(p)·exp(q) ≈ exp(p + q)",
           _op("mul", _exp_p, _exp_q), _op("exp", _op("add", p, q))),
    _range("root_of_square", "√(p·p) ≈ |p|",
           _op("sqrt", _op("mul", p, p)), _op("abs", p)),
)  # fmt: skip
