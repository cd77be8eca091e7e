"""Fusion: an op that reads a finished accumulator at its own index becomes an epilogue of the accumulator's kernel.

The op must read the accumulator through a map that reads no element twice: through a broadcast, the reduction would be
computed again at every point. An op joins an epilogue when one operand can give an accumulator (CanFin); its other
operands are computed beside the accumulator.
"""

from __future__ import annotations

from ir.term.language import (
    Contract,
    EBin,
    ETern,
    EUn,
    EView,
    Fin,
    Load,
    PBin,
    PTern,
    PUn,
    Pure,
    PView,
    Reduce,
    Store,
)
from ir.term.rule import Rule, pattern_variables
from rules.analyses import CanFin, HasFin, OwnEpi, ProDtype, Wanted
from rules.primitives import fill_of_contraction, fill_of_reduction, moves, non_expanding, reads_all

FAMILY = "fusion"

p, q, r, e, m, n, o, t, d, k = pattern_variables("p:P q:P r:P e:E m:S n:S o:S t:S d:S k:S")
_reduced = fill_of_reduction(n, o, d, k, ProDtype(p))
_contracted = fill_of_contraction(n, k)
_read, _unary = Pure(Load(Store(e, t), m)), Pure(PUn(o, d, p))
_binary = Pure(PBin(o, d, p, q))
_ternary = Pure(PTern(o, d, p, q, r))
_sum, _product = Fin(Reduce(o, d, k, p)), Fin(Contract(d, k, p, q))
_fused_binary = EBin(o, d, Pure(p), Pure(q))
_fused_ternary = ETern(o, d, Pure(p), Pure(q), Pure(r))

RULES = (
    Rule("fuse_epilogue", FAMILY, "{e}[m(i)] = e(m(i))",
         _read, EView(e, m), (HasFin(e), Wanted(_read), moves(m, t), non_expanding(m))),
    Rule("fuse_epilogue_in_place", FAMILY, "{e}[m(i)] = e, m(i) is i",
         _read, e, (HasFin(e), reads_all(m, t))),
    Rule("fuse_unary", FAMILY, "pure(o(p)) = o(pure(p))",
         _unary, EUn(o, d, Pure(p)), (CanFin(p), Wanted(_unary))),
    *(Rule(f"fuse_binary_{side}", FAMILY, "pure(p ∘ q) = pure(p) ∘ pure(q)",
           _binary, _fused_binary, (CanFin(operand), Wanted(_binary)))
      for side, operand in (("left", p), ("right", q))),
    *(Rule(f"fuse_ternary_{place}", FAMILY, "pure(o(p, q, r)) = o(pure(p), pure(q), pure(r))",
           _ternary, _fused_ternary, (CanFin(operand), Wanted(_ternary)))
      for place, operand in (("first", p), ("second", q), ("third", r))),
    Rule("view_through_reduction", FAMILY, "(⊕ₖ p) at n(i) = ⊕ₖ p(n(i), k)",
         EView(_sum, n), Fin(Reduce(o, d, k, PView(p, _reduced))), (OwnEpi(_sum),)),
    Rule("view_through_contraction", FAMILY, "(Σₖ p·q) at n(i) = Σₖ p(n(i), k)·q(n(i), k)",
         EView(_product, n), Fin(Contract(d, k, PView(p, _contracted), PView(q, _contracted))), (OwnEpi(_product),)),
)  # fmt: skip
