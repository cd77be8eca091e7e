"""Casts: those that change no value vanish."""

from __future__ import annotations

from ir.term.language import EUn, PUn
from ir.term.rule import Equal, Rule, pattern_variables
from rules.analyses import EpiDtype, ProDtype
from rules.primitives import widening_cast

FAMILY = "casts"

p, e, c, d = pattern_variables("p:P e:E c:S d:S")

RULES = (
    Rule("identity_cast", FAMILY, "cast_d(p) = p, p in d", PUn("cast", d, p), p, (Equal(ProDtype(p), d),)),
    Rule("identity_epilogue_cast", FAMILY, "cast_d(e) = e, e in d", EUn("cast", d, e), e, (Equal(EpiDtype(e), d),)),
    Rule(
        "cast_of_widening_cast",
        FAMILY,
        "cast_d(cast_c(p)) = cast_d(p), c ⊇ dtype of p",
        PUn("cast", d, PUn("cast", c, p)),
        PUn("cast", d, p),
        (widening_cast(ProDtype(p), c),),
    ),
)
