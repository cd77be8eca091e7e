"""Broadcast normalization: no reduction runs over axes of size 1, or along which its argument only repeats."""

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

b, p, m, o, d, k = pattern_variables("b:B p:P m:S o:S d:S k:S")

RULES = (
    Rule(
        "reduce_unit_axes",
        FAMILY,
        "⊕_{k<1} T[m(i, k)] = T[m(i, 0)]",
        Reduce(o, d, k, Load(b, m)),
        Reduce(o, d, without_units_sizes(k), Load(b, without_units(m, k))),
    ),
    Rule(
        "reduce_repeated_extremum",
        FAMILY,
        "max_{k<n} T[m(i)] = T[m(i)], n > 0",
        Reduce(o, d, k, Load(b, m)),
        Reduce(o, d, without_repeats_sizes(m, k), Load(b, without_repeats(m, k))),
        (idempotent(o),),
    ),
    Rule(
        "sum_repeated",
        FAMILY,
        "Σ_{k<n} T[m(i)] = n·T[m(i)], n > 0",
        Fin(Reduce("sum", d, k, Load(b, m))),
        EBin(
            "mul",
            d,
            Fin(Reduce("sum", d, without_repeats_sizes(m, k), Load(b, without_repeats(m, k)))),
            Pure(Imm(d, repeats(m, k, d), outer_sizes(m, k))),
        ),
        (accumulates_exactly(d),),
        Exactness.REASSOCIATE,
    ),
    Rule(
        "reduce_nothing",
        FAMILY,
        "⊕ p over no axis = cast(p)",
        Fin(Reduce(o, d, "[]", p)),
        Pure(PUn("cast", d, p)),
        (one_of(o, "max min prod"),),
    ),
    Rule(
        "sum_nothing",
        FAMILY,
        "Σ p over no axis = 0 + cast(p)",
        Fin(Reduce("sum", d, "[]", p)),
        Pure(PUn("cast", d, p)),
        exactness=Exactness.REASSOCIATE,
    ),
)
"""The argument is matched as a read: every reduction starts as one, and all that it becomes stays in that class."""
