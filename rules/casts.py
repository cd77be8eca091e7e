"""Casts: a CAST that changes no value vanishes, and so does a BITCAST; bits of bits are read once. Results of sums are
not narrowed on the way to a wider dtype.

Only sums of products lose a rounding, whose bits depend on the order of terms in any case. A CAST of an input that a
program narrows and widens again, as to split it in two parts, stays. So does that of a maximum, which is one of the
values that it was taken of.
"""

from __future__ import annotations

from ir.term.language import Contract, EBin, ETern, EUn, Fin, Imm, PUn, Pure
from ir.term.rule import Condition, Equal, Exactness, Rule, pattern_variables
from ir.uop.table import BITCASTS
from rules.analyses import EpiDtype, HasFin, ProDtype
from rules.constants import fold_unary
from rules.primitives import one_of, widening_cast

FAMILY = "casts"

p, q, e, o, f, c, d, u, k = pattern_variables("p:P q:P e:E o:S f:S c:S d:S u:S k:S")

_narrow: tuple[Condition, ...] = (HasFin(e), one_of(c, "fp16 bf16"), one_of(d, "fp32 fp64"))
_product = Fin(Contract(d, k, p, q))
_computed: tuple[Condition, ...] = (one_of(o, "add sub mul max min"), *_narrow)
_wide_e, _wide_q = EUn("cast", d, e), Pure(PUn("cast", d, q))
_BITS = " ".join(sorted(BITCASTS))

RULES = (
    Rule("identity_cast", FAMILY, "d(p) = p, d is the dtype of p",
         PUn("cast", d, p), p, (Equal(ProDtype(p), d),)),
    Rule("identity_epilogue_cast", FAMILY, "d(e) = e, d is the dtype of e",
         EUn("cast", d, e), e, (Equal(EpiDtype(e), d),)),
    Rule("cast_of_widening_cast", FAMILY, "d(c(p)) = d(p), c has every value of p's dtype",
         PUn("cast", d, PUn("cast", c, p)), PUn("cast", d, p), (widening_cast(ProDtype(p), c),)),
    Rule("identity_bits", FAMILY, "o(p) = p, d is the dtype of p",
         PUn(o, d, p), p, (one_of(o, _BITS), Equal(ProDtype(p), d))),
    Rule("identity_epilogue_bits", FAMILY, "o(e) = e, d is the dtype of e",
         EUn(o, d, e), e, (one_of(o, _BITS), Equal(EpiDtype(e), d))),
    Rule("bits_of_bits", FAMILY, "o(f(p)) = f(p)",
         PUn(o, d, PUn(f, c, p)), PUn(f, d, p), (one_of(o, _BITS), one_of(f, _BITS))),
    Rule("cast_of_number", FAMILY, "d(u) = the number d(u)",
         PUn("cast", d, Imm(c, u, k)), Imm(d, fold_unary("cast", d, c, u), k)),
    Rule("round_trip", FAMILY, "d(c(Σₖ p·q)) ≈ Σₖ p·q",
         EUn("cast", d, EUn("cast", c, _product)), _product, (one_of(c, "fp16 bf16"), one_of(d, "fp32 fp64")),
         Exactness.ROUNDING),
    Rule("widen_binary_left", FAMILY, "d(e ∘ q) ≈ d(e) ∘ d(q), e ∘ q was rounded to c",
         EUn("cast", d, EBin(o, c, e, Pure(q))), EBin(o, d, _wide_e, _wide_q), _computed, Exactness.ROUNDING),
    Rule("widen_binary_right", FAMILY, "d(q ∘ e) ≈ d(q) ∘ d(e), q ∘ e was rounded to c",
         EUn("cast", d, EBin(o, c, Pure(q), e)), EBin(o, d, _wide_q, _wide_e), _computed, Exactness.ROUNDING),
    Rule("widen_choice", FAMILY, "d(p ? e : q) = p ? d(e) : d(q)",
         EUn("cast", d, ETern("where", c, Pure(p), e, Pure(q))), ETern("where", d, Pure(p), _wide_e, _wide_q), _narrow),
)  # fmt: skip
