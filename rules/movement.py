"""Movement: a producer is inlined as a view, and a view moves down to the reads, where maps compose.

Views are never introduced but at a read, and only ever move down, so the rules come to an end. They pass through what
a uop computes at its own index (Own), not through copies that were inlined at some map: those are reached by composing
the maps first, so each value is copied once per map. An identity is known by the type of what is read, and by the sizes
of the map before it: two values that are views of each other are not viewed in turn for ever. Where a map has a guard
(PAD), outside it the view is a constant, the fill: an op may be passed only with fills of its operands that the op
takes to that constant.
"""

from __future__ import annotations

from ir.term.language import (
    At,
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
from ir.term.rule import Rule, pattern_variables
from rules.analyses import BufDtype, Computed, EpiDtype, Held, Inlined, Own, OwnEpi, ProDtype, Varies
from rules.primitives import (
    compose,
    domain,
    fill_beside,
    fill_everywhere,
    fill_of_binary,
    fill_of_ternary,
    fill_of_unary,
    filled_with,
    moves,
    reads_all,
    undone,
    unguarded,
)

FAMILY = "movement"

b, p, q, r, e, f, g, m, n, o, s, t, d, k, c, v, name, axis = pattern_variables(
    "b:B p:P q:P r:P e:E f:E g:E m:S n:S o:S s:S t:S d:S k:S c:S v:S name:S axis:I"
)
_unary = fill_of_unary(n, o, d, ProDtype(p))
_binary = [fill_of_binary(n, o, d, ProDtype(p), ProDtype(q), side) for side in "01"]
_ternary = [fill_of_ternary(n, o, d, ProDtype(p), ProDtype(q), ProDtype(r), side) for side in "012"]
_epi_unary = fill_of_unary(n, o, d, EpiDtype(e))
_epi_binary = [fill_of_binary(n, o, d, EpiDtype(e), EpiDtype(f), side) for side in "01"]
_epi_ternary = [fill_of_ternary(n, o, d, EpiDtype(e), EpiDtype(f), EpiDtype(g), side) for side in "012"]
_read = Load(Store(Pure(p), t), m)
_picked = Gather(b, m, axis, p)
_one, _two, _three = PUn(o, d, p), PBin(o, d, p, q), PTern(o, d, p, q, r)
_epi_one, _epi_two, _epi_three = EUn(o, d, e), EBin(o, d, e, f), ETern(o, d, e, f, g)
_two_imm, _imm_two = PBin(o, d, p, Imm(c, v, k)), PBin(o, d, Imm(c, v, k), p)

RULES = (
    Rule("inline_producer", FAMILY, "T = p  ⊢  T[m(i)] = p(m(i))",
         _read, PView(p, m), (moves(m, t), Held(_read), Inlined(Store(Pure(p), t)))),
    Rule("inline_producer_in_place", FAMILY, "T = p  ⊢  T[i] = p(i)",
         _read, p, (reads_all(m, t),)),
    Rule("compose_movements", FAMILY, "T(j) = X[m(j)]  ⊢  T[n(i)] = X[m(n(i))]",
         Load(Store(Pure(Load(b, m)), t), n), Load(b, compose(m, n)), (moves(n, t), Computed(b))),
    Rule("copy_of_input", FAMILY, "T(i) = X(i)  ⊢  T = X",
         Store(Pure(Load(Input(name, t), m)), t), Input(name, t), (reads_all(m, t),)),
    Rule("compose_load", FAMILY, "(i ↦ T[m(i)])(n(i)) = T[m(n(i))]", PView(Load(b, m), n), Load(b, compose(m, n)),
         (Computed(b),)),
    Rule("view_there_and_back", FAMILY, "((p at m(i)) at n(i)) at s(i) = p at m(i), n(s(i)) = i",
         PView(PView(PView(p, m), n), s), PView(p, m), (undone(m, n, s),)),
    Rule("compose_on_chip", FAMILY, "(i ↦ e at m(i))(n(i)) = e at m(n(i))",
         PView(At(e, t, m), n), At(e, t, compose(m, n))),
    Rule("view_of_imm", FAMILY, "v(n(i)) = v", PView(Imm(d, v, k), n), Imm(d, v, domain(n)), (filled_with(n, d, v),)),
    Rule("read_of_nothing", FAMILY, "T[m(i)] = v, the fill of m, which reads nothing", Load(b, m),
         Imm(BufDtype(b), fill_everywhere(m, BufDtype(b)), domain(m))),
    Rule("view_of_nothing", FAMILY, "p(n(i)) = v, the fill of n, which reads nothing", PView(p, n),
         Imm(ProDtype(p), fill_everywhere(n, ProDtype(p)), domain(n))),
    Rule("epilogue_view_of_nothing", FAMILY, "e(n(i)) = v, the fill of n, which reads nothing", EView(e, n),
         Pure(Imm(EpiDtype(e), fill_everywhere(n, EpiDtype(e)), domain(n)))),
    Rule("compose_index", FAMILY, "(i ↦ m(i))(n(i)) = m(n(i))",
         PView(Index(d, m), n), Index(d, compose(m, n)), (unguarded(n),)),
    Rule("view_through_gather", FAMILY, "T[m(i), p(i)] at n(i) = T[m(n(i)), p(n(i))]",
         PView(_picked, n), Gather(b, compose(m, n), axis, PView(p, n)), (Own(_picked), unguarded(n))),
    Rule("view_through_unary", FAMILY, "o(p)(n(i)) = o(p(n(i)))",
         PView(_one, n), PUn(o, d, PView(p, _unary)), (Own(_one),)),
    Rule("view_through_binary", FAMILY, "(p ∘ q)(n(i)) = p(n(i)) ∘ q(n(i))",
         PView(_two, n), PBin(o, d, PView(p, _binary[0]), PView(q, _binary[1])),
         (Own(_two), Varies(p), Varies(q))),
    Rule("view_through_binary_imm", FAMILY, "(p ∘ v)(n(i)) = p(n(i)) ∘ v",
         PView(_two_imm, n), PBin(o, d, PView(p, fill_beside(n, o, d, c, v, "1")), Imm(c, v, domain(n))),
         (Own(_two_imm),)),
    Rule("view_through_imm_binary", FAMILY, "(v ∘ p)(n(i)) = v ∘ p(n(i))",
         PView(_imm_two, n), PBin(o, d, Imm(c, v, domain(n)), PView(p, fill_beside(n, o, d, c, v, "0"))),
         (Own(_imm_two),)),
    Rule("view_through_ternary", FAMILY, "o(p, q, r)(n(i)) = o(p(n(i)), q(n(i)), r(n(i)))",
         PView(_three, n), PTern(o, d, PView(p, _ternary[0]), PView(q, _ternary[1]), PView(r, _ternary[2])),
         (Own(_three),)),
    Rule("compose_epilogue_views", FAMILY, "(i ↦ e(m(i)))(n(i)) = e(m(n(i)))",
         EView(EView(e, m), n), EView(e, compose(m, n))),
    Rule("view_of_pure", FAMILY, "pure(p)(n(i)) = pure(p(n(i)))", EView(Pure(p), n), Pure(PView(p, n))),
    Rule("view_through_epilogue_unary", FAMILY, "o(e)(n(i)) = o(e(n(i)))",
         EView(_epi_one, n), EUn(o, d, EView(e, _epi_unary)), (OwnEpi(_epi_one),)),
    Rule("view_through_epilogue_binary", FAMILY, "(e ∘ f)(n(i)) = e(n(i)) ∘ f(n(i))",
         EView(_epi_two, n), EBin(o, d, EView(e, _epi_binary[0]), EView(f, _epi_binary[1])), (OwnEpi(_epi_two),)),
    Rule("view_through_epilogue_ternary", FAMILY, "o(e, f, g)(n(i)) = o(e(n(i)), f(n(i)), g(n(i)))",
         EView(_epi_three, n),
         ETern(o, d, EView(e, _epi_ternary[0]), EView(f, _epi_ternary[1]), EView(g, _epi_ternary[2])),
         (OwnEpi(_epi_three),)),
)  # fmt: skip
"""Where an equation reads operands at n(i), their fills are those that the op takes to the fill of n."""
