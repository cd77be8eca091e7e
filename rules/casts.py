"""Casts: a CAST that changes no value vanishes."""

from __future__ import annotations

from ir.term.language import EUn, PUn
from ir.term.rule import Equal, Rule, pattern_variables
from rules.analyses import EpiDtype, ProDtype
from rules.primitives import widening_cast

FAMILY = "casts"

p, e, c, d = pattern_variables("p:P e:E c:S d:S")

RULES = (
    Rule("identity_cast", FAMILY, "d(p) = p, d is the dtype of p",
         PUn("cast", d, p), p, (Equal(ProDtype(p), d),)),
    Rule("identity_epilogue_cast", FAMILY, "d(e) = e, d is the dtype of e",
         EUn("cast", d, e), e, (Equal(EpiDtype(e), d),)),
    Rule("cast_of_widening_cast", FAMILY, "d(c(p)) = d(p), c has every value of p's dtype",
         PUn("cast", d, PUn("cast", c, p)), PUn("cast", d, p), (widening_cast(ProDtype(p), c),)),
)  # fmt: skip
