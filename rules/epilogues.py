"""Algebra of epilogues: the rules of `rules.algebra` for the values of an epilogue, made from these rules.

A reduction hands a factor, a sign or an op of its argument to its epilogue. Only there these meet the ops after the
reduction; all other ops have met as values inside the kernel, before anything was fused.
"""

from __future__ import annotations

from dataclasses import replace

from ir.term.language import App, EBin, ETern, EUn, Fact, Imm, PBin, Prim, PTern, PUn, Pure, Sort, Term, Var
from ir.term.rule import Rule
from rules import algebra
from rules.analyses import EpiDtype, ProDtype

FAMILY = "epilogues"

_EPILOGUE_OPS = {PUn: EUn, PBin: EBin, PTern: ETern}


def in_epilogue(rule: Rule) -> Rule:
    """The same rule for values at the output index; it may hold ops and numbers only.

    before   mul_one           PBin(mul, d, p, Imm(d, "1.0", k))  →  p
    after    mul_one_epilogue  EBin(mul, d, p, Pure(Imm(d, "1.0", k)))  →  p
    """
    return replace(rule.map_terms(_epilogue), name=f"{rule.name}_epilogue", family=FAMILY)


def _epilogue(term: Term) -> Term:
    match term:
        case Var(sort=Sort.PRO):
            return Var(term.name, Sort.EPI)
        case App(ctor=ctor) if ctor is Imm:
            return Pure(term)
        case App(ctor=ctor) if ctor in _EPILOGUE_OPS:
            return App(_EPILOGUE_OPS[ctor], tuple(map(_epilogue, term.args)))
        case App():
            raise TypeError(f"an epilogue has no {term.ctor.name}")
        case Prim():
            return Prim(term.fn, tuple(map(_epilogue, term.args)))
        case Fact() if term.analysis is ProDtype:
            return EpiDtype(_epilogue(term.term))
        case _:
            return term


_SERVING = (
    *("regroup_exactly", "regroup_numbers", "add_zero", "add_positive_zero", "mul_one"),
    *("involution", "negative_times_number", "negative_of_product", "idempotent_unary"),
)
RULES = tuple(in_epilogue(rule) for rule in algebra.RULES if rule.name in _SERVING)
