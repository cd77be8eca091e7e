"""Contraction: a sum of products becomes one operation, that computes the product without rounding it.

A product whose dtype is its own accumulator (fp32, fp64, integers) is only regrouped; for narrower floats, and
through a CAST of the product or of an operand, a rounding disappears. Integer products wrap, so no CAST of theirs may
be dropped. A sum of one term is that term (`rules.broadcast`) and no contraction: it is a view of itself, and
would be read through that for ever.
"""

from __future__ import annotations

from ir.term.language import Contract, PBin, PUn, Reduce
from ir.term.rule import Exactness, Rule, pattern_variables
from rules.analyses import ProDtype
from rules.primitives import accumulates, accumulates_exactly, one_of, reduces, widening_cast

FAMILY = "contraction"

p, q, c, d, k, w = pattern_variables("p:P q:P c:S d:S k:S w:S")

RULES = (
    Rule(
        "sum_of_products",
        FAMILY,
        "Σₖ p·q = contract(p, q)",
        Reduce("sum", d, k, PBin("mul", d, p, q)),
        Contract(d, k, p, q),
        (accumulates_exactly(d), reduces(k)),
        Exactness.REASSOCIATE,
    ),
    Rule(
        "sum_of_narrow_products",
        FAMILY,
        "Σₖ round(p·q) ≈ contract(p, q)",
        Reduce("sum", d, k, PBin("mul", c, p, q)),
        Contract(d, k, p, q),
        (accumulates(c, d), reduces(k)),
        Exactness.ROUNDING,
    ),
    Rule(
        "sum_of_cast_products",
        FAMILY,
        "Σₖ cast(round(p·q)) ≈ contract(p, q)",
        Reduce("sum", d, k, PUn("cast", w, PBin("mul", c, p, q))),
        Contract(d, k, p, q),
        (accumulates(c, d), accumulates(w, d), reduces(k)),
        Exactness.ROUNDING,
    ),
    Rule(
        "drop_widening_cast_left",
        FAMILY,
        "contract(cast(p), q) = contract(p, q)",
        Contract(d, k, PUn("cast", c, p), q),
        Contract(d, k, p, q),
        (widening_cast(ProDtype(p), c), accumulates(c, d)),
    ),
    Rule(
        "drop_widening_cast_right",
        FAMILY,
        "contract(p, cast(q)) = contract(p, q)",
        Contract(d, k, p, PUn("cast", c, q)),
        Contract(d, k, p, q),
        (widening_cast(ProDtype(q), c), accumulates(c, d)),
    ),
    Rule(
        "drop_narrowing_cast_left",
        FAMILY,
        "contract(round(p), q) ≈ contract(p, q)",
        Contract(d, k, PUn("cast", c, p), q),
        Contract(d, k, p, q),
        (one_of(c, "fp16 bf16"), accumulates(ProDtype(p), d)),
        Exactness.ROUNDING,
    ),
    Rule(
        "drop_narrowing_cast_right",
        FAMILY,
        "contract(p, round(q)) ≈ contract(p, q)",
        Contract(d, k, p, PUn("cast", c, q)),
        Contract(d, k, p, q),
        (one_of(c, "fp16 bf16"), accumulates(ProDtype(q), d)),
        Exactness.ROUNDING,
    ),
)
