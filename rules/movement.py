"""Movement: a producer becomes a view at its reader, and a view moves down to the reads, where maps compose.

A rule introduces a view at a read alone and moves a view downwards alone, so that the rules come to an end. A view
passes through a value that a uop computes at its own index (Own). It does not pass through a copy that was inlined at
some map: the maps are composed first, so that each value is copied once per map.

A map is known to be an identity by the type of the tensor that it reads, and by the sizes of the map before it. Two
values that are views of each other are therefore not viewed in turn forever.

A map with a guard (PAD) reads nothing outside the guard: there the view has the fill of the guard. Such a view passes
an op only where the op's operands have fills that the op takes to this fill.
"""

from __future__ import annotations

from ir.term.language import (
    At,
    EBin,
    ETern,
    EUn,
    EView,
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

T, X, p, q, r, e, f, g, m, n, o, s, t, d, k, c, v = pattern_variables(
    "T:B X:S p:P q:P r:P e:E f:E g:E m:S n:S o:S s:S t:S d:S k:S c:S v:S"
)
_unary = fill_of_unary(n, o, d, ProDtype(p))
_binary = [fill_of_binary(n, o, d, ProDtype(p), ProDtype(q), side) for side in "01"]
_ternary = [fill_of_ternary(n, o, d, ProDtype(p), ProDtype(q), ProDtype(r), side) for side in "012"]
_epi_unary = fill_of_unary(n, o, d, EpiDtype(e))
_epi_binary = [fill_of_binary(n, o, d, EpiDtype(e), EpiDtype(f), side) for side in "01"]
_epi_ternary = [fill_of_ternary(n, o, d, EpiDtype(e), EpiDtype(f), EpiDtype(g), side) for side in "012"]
_read = Load(Store(Pure(p), t), m)
_one, _two, _three = PUn(o, d, p), PBin(o, d, p, q), PTern(o, d, p, q, r)
_epi_one, _epi_two, _epi_three = EUn(o, d, e), EBin(o, d, e, f), ETern(o, d, e, f, g)
_two_imm, _imm_two = PBin(o, d, p, Imm(c, v, k)), PBin(o, d, Imm(c, v, k), p)

RULES = (
    Rule("inline_producer", FAMILY, "{p}[m(i)] = p(m(i))",
         _read, PView(p, m), (moves(m, t), Held(_read), Inlined(Store(Pure(p), t)))),
    Rule("inline_producer_in_place", FAMILY, "{p}[m(i)] = p, m(i) is i",
         _read, p, (reads_all(m, t),)),
    Rule("compose_movements", FAMILY, "{T[m(i)]}[n(i)] = T[m(n(i))]",
         Load(Store(Pure(Load(T, m)), t), n), Load(T, compose(m, n)), (moves(n, t), Computed(T))),
    Rule("copy_of_input", FAMILY, "{X[m(i)]} = X, m(i) is i",
         Store(Pure(Load(Input(X, t), m)), t), Input(X, t), (reads_all(m, t),)),
    Rule("compose_load", FAMILY, "T[m(i)] at n(i) = T[m(n(i))]",
         PView(Load(T, m), n), Load(T, compose(m, n)), (Computed(T),)),
    Rule("view_there_and_back", FAMILY, "(p(m(i)) at n(i)) at s(i) = p(m(i)), n(s(i)) is i",
         PView(PView(PView(p, m), n), s), PView(p, m), (undone(m, n, s),)),
    Rule("compose_on_chip", FAMILY, "⟨e⟩[m(i)] at n(i) = ⟨e⟩[m(n(i))]",
         PView(At(e, t, m), n), At(e, t, compose(m, n))),
    Rule("view_of_imm", FAMILY, "v at n(i) = v, every fill of n is v",
         PView(Imm(d, v, k), n), Imm(d, v, domain(n)), (filled_with(n, d, v),)),
    Rule("read_of_nothing", FAMILY, "T[m(i)] = fill of m, which reads nothing",
         Load(T, m), Imm(BufDtype(T), fill_everywhere(m, BufDtype(T)), domain(m))),
    Rule("view_of_nothing", FAMILY, "p(n(i)) = fill of n, which reads nothing",
         PView(p, n), Imm(ProDtype(p), fill_everywhere(n, ProDtype(p)), domain(n))),
    Rule("epilogue_view_of_nothing", FAMILY, "e(n(i)) = fill of n, which reads nothing",
         EView(e, n), Pure(Imm(EpiDtype(e), fill_everywhere(n, EpiDtype(e)), domain(n)))),
    Rule("compose_index", FAMILY, "m(i) at n(i) = m(n(i))",
         PView(Index(d, m), n), Index(d, compose(m, n)), (unguarded(n),)),
    Rule("view_through_unary", FAMILY, "o(p) at n(i) = o(p(n(i)))",
         PView(_one, n), PUn(o, d, PView(p, _unary)), (Own(_one),)),
    Rule("view_through_binary", FAMILY, "(p ∘ q) at n(i) = p(n(i)) ∘ q(n(i))",
         PView(_two, n), PBin(o, d, PView(p, _binary[0]), PView(q, _binary[1])),
         (Own(_two), Varies(p), Varies(q))),
    Rule("view_through_binary_imm", FAMILY, "(p ∘ v) at n(i) = p(n(i)) ∘ v",
         PView(_two_imm, n), PBin(o, d, PView(p, fill_beside(n, o, d, c, v, "1")), Imm(c, v, domain(n))),
         (Own(_two_imm),)),
    Rule("view_through_imm_binary", FAMILY, "(v ∘ p) at n(i) = v ∘ p(n(i))",
         PView(_imm_two, n), PBin(o, d, Imm(c, v, domain(n)), PView(p, fill_beside(n, o, d, c, v, "0"))),
         (Own(_imm_two),)),
    Rule("view_through_ternary", FAMILY, "o(p, q, r) at n(i) = o(p(n(i)), q(n(i)), r(n(i)))",
         PView(_three, n), PTern(o, d, PView(p, _ternary[0]), PView(q, _ternary[1]), PView(r, _ternary[2])),
         (Own(_three),)),
    Rule("compose_epilogue_views", FAMILY, "e(m(i)) at n(i) = e(m(n(i)))",
         EView(EView(e, m), n), EView(e, compose(m, n))),
    Rule("view_of_pure", FAMILY, "pure(p) at n(i) = pure(p(n(i)))",
         EView(Pure(p), n), Pure(PView(p, n))),
    Rule("view_through_epilogue_unary", FAMILY, "o(e) at n(i) = o(e(n(i)))",
         EView(_epi_one, n), EUn(o, d, EView(e, _epi_unary)), (OwnEpi(_epi_one),)),
    Rule("view_through_epilogue_binary", FAMILY, "(e ∘ f) at n(i) = e(n(i)) ∘ f(n(i))",
         EView(_epi_two, n), EBin(o, d, EView(e, _epi_binary[0]), EView(f, _epi_binary[1])), (OwnEpi(_epi_two),)),
    Rule("view_through_epilogue_ternary", FAMILY, "o(e, f, g) at n(i) = o(e(n(i)), f(n(i)), g(n(i)))",
         EView(_epi_three, n),
         ETern(o, d, EView(e, _epi_ternary[0]), EView(f, _epi_ternary[1]), EView(g, _epi_ternary[2])),
         (OwnEpi(_epi_three),)),
)  # fmt: skip
"""Where an equation takes operands at n(i), the op takes the fills of the operands to the fill of n."""
