"""Gathers: a gather of a computed tensor becomes the same computation of gathered operands.

A gather reads at a computed place: at m(i, q), where the index q is the last coordinate, clamped into its axis. A
gather of a movement reads the movement's source through the composed map. A gather of a gather has a gathered index. A
gather of an elementwise op is the op of gathers, which computes only the elements that are picked. A gather of a sum or
of a product stays a gather from memory, so that no accumulator is computed again for an index.

Padding of the source becomes a guard on the index: where the guard fails, nothing is read.
"""

from __future__ import annotations

from ir.term.language import Gather, Imm, Load, PBin, PGather, PTern, PUn, Pure, PView, Store, Term
from ir.term.rule import Rule, pattern_variables
from rules.analyses import Computed, Held, Inlined, Own, ProDtype, Varies
from rules.choices import (
    choice_size,
    choices_together,
    compose_beside,
    highest_choice,
    outer_choice,
    outer_domain,
    total,
    without_choice,
)
from rules.primitives import (
    compose,
    fill_beside,
    fill_of_binary,
    fill_of_ternary,
    fill_of_unary,
    filled_with,
)

FAMILY = "gathers"

T, p, q, r, s, m, n, o, t, d, k, c, v = pattern_variables("T:B p:P q:P r:P s:P m:S n:S o:S t:S d:S k:S c:S v:S")
_unary = fill_of_unary(n, o, d, ProDtype(p))
_binary = [fill_of_binary(n, o, d, ProDtype(p), ProDtype(q), side) for side in "01"]
_ternary = [fill_of_ternary(n, o, d, ProDtype(p), ProDtype(q), ProDtype(r), side) for side in "012"]
_gather = Gather(T, m, p)
_produced = Gather(Store(Pure(p), t), m, q)
_one, _two, _three = PUn(o, d, p), PBin(o, d, p, q), PTern(o, d, p, q, r)
_two_imm, _imm_two = PBin(o, d, p, Imm(c, v, k)), PBin(o, d, Imm(c, v, k), p)


def _clamped(index: Term, element: Term, map_: Term) -> Term:
    """The index of a gather through a map, of dtype `element`, clamped into its axis."""
    domain = outer_domain(n)
    low = PBin("max", element, index, Imm(element, "0", domain))
    return PUn("cast", "i64", PBin("min", element, low, Imm(element, highest_choice(map_, element), domain)))


_inner = PGather(p, total(n), q)
_both = PBin("add", "i64", PBin("mul", "i64", _clamped(q, ProDtype(q), n), Imm("i64", choice_size(m), outer_domain(n))),
             _clamped(_inner, ProDtype(p), m))  # fmt: skip

RULES = (
    Rule("view_through_gather", FAMILY, "T[m(i, p)] at n(i) = T[m(n(i), p(n(i)))]",
         PView(_gather, n), Gather(T, compose_beside(m, n), PView(p, total(n))), (Own(_gather),)),
    Rule("gather_of_repeats", FAMILY, "T[m(i, p)] = T[m(i)], m does not depend on p",
         _gather, Load(T, without_choice(m))),
    Rule("gather_of_producer", FAMILY, "{p}[m(i, q)] = p(m(i, q))",
         _produced, PGather(p, m, q), (Held(_produced), Inlined(Store(Pure(p), t)))),
    Rule("gather_of_movement", FAMILY, "{T[m(i)]}[n(i, q)] = T[m(n(i, q))]",
         Gather(Store(Pure(Load(T, m)), t), n, q), Gather(T, compose(m, n), q), (Computed(T),)),
    Rule("gather_of_read", FAMILY, "T[m(i)] at n(i, q) = T[m(n(i, q))]",
         PGather(Load(T, m), n, q), Gather(T, compose(m, n), q), (Computed(T),)),
    Rule("gather_of_imm", FAMILY, "v at n(i, q) = v, every fill of n is v",
         PGather(Imm(d, v, k), n, q), Imm(d, v, outer_domain(n)), (filled_with(n, d, v),)),
    Rule("gather_of_gather", FAMILY, "T[m(i, p)] at n(i, q) = T[m(n(i), p(n(i, q)))]",
         PGather(_gather, n, q), Gather(T, outer_choice(m, n), _inner), (Own(_gather),)),
    Rule("gather_at_two_indices", FAMILY,
         "T[m(i, p)] at n(i, q) = "
         "T[(m∘n)(i, i64(min(max(q, 0), |n| − 1))·|m| + i64(min(max(p(n(i, q)), 0), |m| − 1)))]",
         PGather(_gather, n, q), Gather(T, choices_together(m, n), _both), (Own(_gather),)),
    Rule("gather_through_unary", FAMILY, "o(p) at n(i, s) = o(p(n(i, s)))",
         PGather(_one, n, s), PUn(o, d, PGather(p, _unary, s)), (Own(_one),)),
    Rule("gather_through_binary", FAMILY, "(p ∘ q) at n(i, s) = p(n(i, s)) ∘ q(n(i, s))",
         PGather(_two, n, s), PBin(o, d, PGather(p, _binary[0], s), PGather(q, _binary[1], s)),
         (Own(_two), Varies(p), Varies(q))),
    Rule("gather_through_binary_imm", FAMILY, "(p ∘ v) at n(i, s) = p(n(i, s)) ∘ v",
         PGather(_two_imm, n, s),
         PBin(o, d, PGather(p, fill_beside(n, o, d, c, v, "1"), s), Imm(c, v, outer_domain(n))), (Own(_two_imm),)),
    Rule("gather_through_imm_binary", FAMILY, "(v ∘ p) at n(i, s) = v ∘ p(n(i, s))",
         PGather(_imm_two, n, s),
         PBin(o, d, Imm(c, v, outer_domain(n)), PGather(p, fill_beside(n, o, d, c, v, "0"), s)), (Own(_imm_two),)),
    Rule("gather_through_ternary", FAMILY, "o(p, q, r) at n(i, s) = o(p(n(i, s)), q(n(i, s)), r(n(i, s)))",
         PGather(_three, n, s), PTern(o, d, *(PGather(x, _ternary[k_], s) for k_, x in enumerate((p, q, r)))),
         (Own(_three),)),
)  # fmt: skip
