"""Indices: arithmetic on an index becomes a map, and a comparison that the sizes decide becomes true or false.

A map costs nothing, since addresses are computed by maps in any case. A mask that holds everywhere vanishes. A gather
whose index is an index expression becomes a strided read.
"""

from __future__ import annotations

from ir.term.language import Gather, Imm, Index, Load, PBin, PUn
from ir.term.rule import Rule, pattern_variables
from rules.index_maps import (
    compared_with_index,
    compared_with_number,
    index_and_index,
    index_and_number,
    index_as,
    picked,
)
from rules.primitives import domain, one_of

FAMILY = "indices"

T, m, n, o, c, d, k, v = pattern_variables("T:B m:S n:S o:S c:S d:S k:S v:S")
_ARITHMETIC, _COMPARISONS = "add sub mul idiv mod", "cmplt cmple cmpgt cmpge cmpeq cmpne"
_m, _n = Index(d, m), Index(d, n)
_picked = picked(n, m, d)

RULES = (
    Rule("cast_of_index", FAMILY, "d(m(i)) = m(i), d holds the index",
         PUn("cast", d, Index(c, m)), Index(d, index_as(m, c, d))),
    Rule("index_and_number", FAMILY, "m(i) ∘ v = (m ∘ v)(i)",
         PBin(o, d, _m, Imm(d, v, k)), Index(d, index_and_number(o, m, d, v)), (one_of(o, _ARITHMETIC),)),
    Rule("index_and_index", FAMILY, "m(i) ± n(i) = (m ± n)(i)",
         PBin(o, d, _m, _n), Index(d, index_and_index(o, m, n, d)), (one_of(o, "add sub"),)),
    Rule("compare_index_with_number", FAMILY, "m(i) ∘ v = true or false, as the sizes tell",
         PBin(o, "bool", _m, Imm(d, v, k)), Imm("bool", compared_with_number(o, m, d, v), domain(m)),
         (one_of(o, _COMPARISONS),)),
    Rule("compare_index_with_index", FAMILY, "m(i) ∘ n(i) = true or false, as the sizes tell",
         PBin(o, "bool", _m, _n), Imm("bool", compared_with_index(o, m, n, d), domain(m)), (one_of(o, _COMPARISONS),)),
    Rule("gather_by_index", FAMILY, "gather T[n(i, m(i))] = T[n(i, m(i))]",
         Gather(T, n, _m), Load(T, _picked)),
)  # fmt: skip
