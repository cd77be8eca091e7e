"""Broadcast: a reduction over axes of size 1, or over axes along which its argument repeats, loses these axes."""

from __future__ import annotations

from ir.term.language import EBin, Fin, Imm, Load, PUn, Pure, Reduce
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.primitives import (
    accumulates_exactly,
    idempotent,
    one_of,
    outer_sizes,
    repeats,
    without_repeats,
    without_repeats_sizes,
    without_units,
    without_units_sizes,
)

FAMILY = "broadcast"

T, p, m, o, d, k = pattern_variables("T:B p:P m:S o:S d:S k:S")
_without_units = Load(T, without_units(m, k))
_without_repeats = Load(T, without_repeats(m, k))

RULES = (
    Rule("reduce_unit_axes", FAMILY, "⊕ₖ T[m(i, k)] = ⊕ₖ′ T[m(i, k′)], k′ is k without axes of size 1",
         Reduce(o, d, k, Load(T, m)), Reduce(o, d, without_units_sizes(k), _without_units)),
    Rule("reduce_repeated_extremum", FAMILY, "⊕ₖ T[m(i, k)] = ⊕ₖ′ T[m(i, k′)], m depends on k′ alone; x ⊕ x is x",
         Reduce(o, d, k, Load(T, m)), Reduce(o, d, without_repeats_sizes(m, k), _without_repeats), (idempotent(o),)),
    Rule("sum_repeated", FAMILY, "Σₖ T[m(i, k)] ≈ (Σₖ′ T[m(i, k′)])·n, m depends on k′ alone; k has n times its points",
         Fin(Reduce("sum", d, k, Load(T, m))),
         EBin("mul", d, Fin(Reduce("sum", d, without_repeats_sizes(m, k), _without_repeats)),
              Pure(Imm(d, repeats(m, k, d), outer_sizes(m, k)))),
         (accumulates_exactly(d),), Exactness.REASSOCIATE),
    Rule("reduce_nothing", FAMILY, "⊕ p = d(p), over no axis",
         Fin(Reduce(o, d, "[]", p)), Pure(PUn("cast", d, p)), (one_of(o, "max min prod"),)),
    Rule("sum_nothing", FAMILY, "Σ p ≈ d(p), over no axis; −0 may become 0",
         Fin(Reduce("sum", d, "[]", p)), Pure(PUn("cast", d, p)), exactness=Exactness.REASSOCIATE),
)  # fmt: skip
"""The argument is matched as a read: every reduction is loaded with one, and its class holds all that it becomes."""
