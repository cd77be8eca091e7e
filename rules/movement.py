"""Movement: a producer is inlined as a view, and a view moves down to the reads, where maps compose.

Views are never introduced but at a read, and only ever move down, so the rules come to an end. An identity is
known by the type of what is read, so only there; deeper, no view is one. Where a map has a guard (PAD), outside
it the view is a constant, the fill: an op may be passed only with fills of its operands that the op takes to that
constant.
"""

from __future__ import annotations

from ir.rule import Rule, pattern_variables
from ir.term import (
    EBin,
    ETern,
    EUn,
    EView,
    Gather,
    Imm,
    Index,
    Input,
    Load,
    PBin,
    PTern,
    PUn,
    Pure,
    PView,
    Store,
)
from rules.analyses import Computed, EpiDtype, ProDtype
from rules.primitives import (
    compose,
    domain,
    fill_beside,
    fill_of_binary,
    fill_of_ternary,
    fill_of_unary,
    filled_with,
    moves,
    reads_all,
    unguarded,
)

FAMILY = "movement"

b, p, q, r, e, f, g, m, n, o, t, d, k, c, v, name, axis = pattern_variables(
    "b:B p:P q:P r:P e:E f:E g:E m:S n:S o:S t:S d:S k:S c:S v:S name:S axis:I"
)
_unary = fill_of_unary(n, o, d, ProDtype(p))
_binary = [fill_of_binary(n, o, d, ProDtype(p), ProDtype(q), side) for side in "01"]
_ternary = [fill_of_ternary(n, o, d, ProDtype(p), ProDtype(q), ProDtype(r), side) for side in "012"]
_epi_unary = fill_of_unary(n, o, d, EpiDtype(e))
_epi_binary = [fill_of_binary(n, o, d, EpiDtype(e), EpiDtype(f), side) for side in "01"]
_epi_ternary = [fill_of_ternary(n, o, d, EpiDtype(e), EpiDtype(f), EpiDtype(g), side) for side in "012"]

RULES = (
    Rule("inline_producer", FAMILY, "T = p  ⊢  T[m(i)] = p(m(i))",
         Load(Store(Pure(p), t), m), PView(p, m), (moves(m, t),)),
    Rule("inline_producer_in_place", FAMILY, "T = p  ⊢  T[i] = p(i)",
         Load(Store(Pure(p), t), m), p, (reads_all(m, t),)),
    Rule("copy_of_input", FAMILY, "T(i) = X(i)  ⊢  T = X",
         Store(Pure(Load(Input(name, t), m)), t), Input(name, t), (reads_all(m, t),)),
    Rule("compose_load", FAMILY, "(i ↦ T[m(i)])(n(i)) = T[m(n(i))]", PView(Load(b, m), n), Load(b, compose(m, n)),
         (Computed(b),)),
    Rule("view_of_imm", FAMILY, "v(n(i)) = v", PView(Imm(d, v, k), n), Imm(d, v, domain(n)), (filled_with(n, d, v),)),
    Rule("compose_index", FAMILY, "(i ↦ m(i))(n(i)) = m(n(i))",
         PView(Index(d, m), n), Index(d, compose(m, n)), (unguarded(n),)),
    Rule("view_through_gather", FAMILY, "T[m(i), p(i)] at n(i) = T[m(n(i)), p(n(i))]",
         PView(Gather(b, m, axis, p), n), Gather(b, compose(m, n), axis, PView(p, n)), (unguarded(n),)),
    Rule("view_through_unary", FAMILY, "o(p)(n(i)) = o(p(n(i)))",
         PView(PUn(o, d, p), n), PUn(o, d, PView(p, _unary))),
    Rule("view_through_binary", FAMILY, "(p ∘ q)(n(i)) = p(n(i)) ∘ q(n(i))",
         PView(PBin(o, d, p, q), n), PBin(o, d, PView(p, _binary[0]), PView(q, _binary[1]))),
    Rule("view_through_binary_imm", FAMILY, "(p ∘ v)(n(i)) = p(n(i)) ∘ v",
         PView(PBin(o, d, p, Imm(c, v, k)), n),
         PBin(o, d, PView(p, fill_beside(n, o, d, c, v, "1")), Imm(c, v, domain(n)))),
    Rule("view_through_imm_binary", FAMILY, "(v ∘ p)(n(i)) = v ∘ p(n(i))",
         PView(PBin(o, d, Imm(c, v, k), p), n),
         PBin(o, d, Imm(c, v, domain(n)), PView(p, fill_beside(n, o, d, c, v, "0")))),
    Rule("view_through_ternary", FAMILY, "o(p, q, r)(n(i)) = o(p(n(i)), q(n(i)), r(n(i)))",
         PView(PTern(o, d, p, q, r), n),
         PTern(o, d, PView(p, _ternary[0]), PView(q, _ternary[1]), PView(r, _ternary[2]))),
    Rule("view_of_pure", FAMILY, "pure(p)(n(i)) = pure(p(n(i)))", EView(Pure(p), n), Pure(PView(p, n))),
    Rule("view_through_epilogue_unary", FAMILY, "o(e)(n(i)) = o(e(n(i)))",
         EView(EUn(o, d, e), n), EUn(o, d, EView(e, _epi_unary))),
    Rule("view_through_epilogue_binary", FAMILY, "(e ∘ f)(n(i)) = e(n(i)) ∘ f(n(i))",
         EView(EBin(o, d, e, f), n), EBin(o, d, EView(e, _epi_binary[0]), EView(f, _epi_binary[1]))),
    Rule("view_through_epilogue_ternary", FAMILY, "o(e, f, g)(n(i)) = o(e(n(i)), f(n(i)), g(n(i)))",
         EView(ETern(o, d, e, f, g), n),
         ETern(o, d, EView(e, _epi_ternary[0]), EView(f, _epi_ternary[1]), EView(g, _epi_ternary[2]))),
)  # fmt: skip
"""Where an equation reads operands at n(i), their fills are those that the op takes to the fill of n."""
