"""Logic: choices without an alternative vanish, comparisons are decided, booleans skip the way through numbers."""

from __future__ import annotations

from ir.term.language import App, Imm, Load, PBin, PTern, PUn, Term
from ir.term.rule import Equal, Rule, pattern_variables
from rules.analyses import BufDtype, ProDtype
from rules.constants import decided, fold_binary, fold_unary, opposite
from rules.primitives import domain, one_of

FAMILY = "logic"

T, p, q, r, s, m, o, c, d, k, u, v, w = pattern_variables("T:B p:P q:P r:P s:P m:S o:S c:S d:S k:S u:S v:S w:S")


def _where(condition: Term, then: Term, other: Term) -> App:
    return PTern("where", d, condition, then, other)


_true, _false = Imm("bool", "true", k), Imm("bool", "false", k)
_not_p = PUn("not", "bool", p)
_u, _v = Imm(c, u, k), Imm(c, v, k)

RULES = (
    Rule("where_equal", FAMILY, "p ? q : q = q",
         _where(p, q, q), q),
    Rule("where_true", FAMILY, "true ? q : r = q",
         _where(_true, q, r), q),
    Rule("where_false", FAMILY, "false ? q : r = r",
         _where(_false, q, r), r),
    Rule("where_not", FAMILY, "¬p ? q : r = p ? r : q",
         _where(_not_p, q, r), _where(p, r, q)),
    Rule("where_then_where", FAMILY, "p ? (p ? q : r) : s = p ? q : s",
         _where(p, _where(p, q, r), s), _where(p, q, s)),
    Rule("where_else_where", FAMILY, "p ? s : (p ? q : r) = p ? s : r",
         _where(p, s, _where(p, q, r)), _where(p, s, r)),
    Rule("where_is_condition", FAMILY, "p ? true : false = p",
         PTern("where", "bool", p, _true, _false), p),
    Rule("where_is_negation", FAMILY, "p ? false : true = ¬p",
         PTern("where", "bool", p, _false, _true), _not_p),
    Rule("where_is_relu", FAMILY, "q ≤ 0 ? 0 : q = relu(q)",
         _where(PBin("cmple", "bool", q, Imm(d, v, k)), Imm(d, v, k), q), PUn("relu", d, q), (one_of(v, "0 0.0"),)),
    Rule("unary_of_chosen_numbers", FAMILY, "o(p ? u : v) = p ? o(u) : o(v)",
         PUn(o, d, PTern("where", c, p, _u, _v)),
         _where(p, Imm(d, fold_unary(o, d, c, u), k), Imm(d, fold_unary(o, d, c, v), k))),
    Rule("binary_of_chosen_numbers", FAMILY, "(p ? u : v) ∘ w = p ? u ∘ w : v ∘ w",
         PBin(o, d, PTern("where", c, p, _u, _v), Imm(c, w, k)),
         _where(p, Imm(d, fold_binary(o, d, c, u, w), k), Imm(d, fold_binary(o, d, c, v, w), k))),
    Rule("number_and_chosen_numbers", FAMILY, "w ∘ (p ? u : v) = p ? w ∘ u : w ∘ v",
         PBin(o, d, Imm(c, w, k), PTern("where", c, p, _u, _v)),
         _where(p, Imm(d, fold_binary(o, d, c, w, u), k), Imm(d, fold_binary(o, d, c, w, v), k)),
         (one_of(o, "sub fdiv quotient idiv mod pow"),)),
    Rule("comparison_decided", FAMILY, "p ∘ v = true or false, as p < lowest is false",
         PBin(o, "bool", p, _v), Imm("bool", decided(o, c, v), k), (one_of(o, "cmplt cmple cmpgt cmpge"),)),
    Rule("not_of_comparison", FAMILY, "¬(p ∘ q) = p ∘′ q, as ¬(p = q) is p ≠ q",
         PUn("not", "bool", PBin(o, "bool", p, q)), PBin(opposite(o, ProDtype(p)), "bool", p, q),
         (one_of(o, "cmplt cmple cmpgt cmpge cmpeq cmpne"),)),
    Rule("bool_through_number", FAMILY, "bool(c(p)) = p, p is a bool",
         PUn("cast", "bool", PUn("cast", c, p)), p, (Equal(ProDtype(p), "bool"),)),
    Rule("bool_number_is_not_zero", FAMILY, "c(p) ≠ 0 = p, p is a bool",
         PBin("cmpne", "bool", PUn("cast", c, p), _v), p, (Equal(ProDtype(p), "bool"), one_of(v, "0 0.0 -0.0"))),
    Rule("cast_of_bool", FAMILY, "d(T[m(i)]) = T[m(i)] ? d(true) : d(false), T holds bools",
         PUn("cast", d, Load(T, m)),
         _where(Load(T, m), Imm(d, fold_unary("cast", d, "bool", "true"), domain(m)),
                Imm(d, fold_unary("cast", d, "bool", "false"), domain(m))),
         (Equal(BufDtype(T), "bool"),)),
)  # fmt: skip
