"""Scaling through a product: a factor of a product or of its operand moves to where it is multiplied less often.

A factor of constants joins a constant operand, (x·g)·W = x·(g·W) and (x·W)·g = x·(W·g): batch norms fold into filters,
the gain of a norm into the weights behind it. A row's statistic leaves the sum, ((x·r)·g)·W = r·((x·g)·W), and its
product needs no normalized copy of x. The level is `rounding`: a factor is rounded with one operand in place of the
other, and scales the bound γₙ·|x|·|W| as it scales the sum.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import App, Contract, EBin, Fin, Imm, Load, PBin, Pure, Store, Term
from ir.term.rule import Equal, Exactness, Rule, pattern_variables
from rules.analyses import BufDtype, Computed, Constant, Runs
from rules.constants import finite, is_float
from rules.primitives import accumulates_exactly, invariant, typed, unguarded
from rules.regrouping import beside, depends_on_less, joint, summed_over

FAMILY = "scaling"

b, c, p, q, w, m, n, s, d, k, t, v, z = pattern_variables("b:B c:B p:P q:P w:P m:S n:S s:S d:S k:S t:S v:S z:S")
_SIDES = ("left", "right")
_weights = Load(c, n)
_known = (accumulates_exactly(d), is_float(d), Equal(BufDtype(c), d), Constant(c), Computed(c))


def _pair(side: str, first: Term, second: Term) -> tuple[Term, Term]:
    return (first, second) if side == "left" else (second, first)


def _stored_product(side: str, operand: Term) -> App:
    """A product as it was stored: the constant operand stands on this side."""
    return Load(_product(side, operand), s)


def _product(side: str, operand: Term) -> App:
    """The same, before it is read. Rules ask that it `Runs`: what is all constants is computed once, in any order."""
    return Store(Fin(Contract(d, k, *_pair(side, operand, p))), t)


def _scaled(factor: Term, read: Term) -> App:
    """The constant operand times a factor, over the axes along which `read` and it move."""
    made = PBin("mul", d, Load(c, joint("first", n, read)), factor)
    return Load(Store(Pure(made), typed(d, joint("sizes", n, read))), joint("read", n, read))


def _fold_number(side: str) -> Rule:
    equation = "(W·x)·v ≈ (v·W)·x" if side == "left" else "(x·W)·v ≈ x·(v·W)"
    lhs = PBin("mul", d, _stored_product(side, _weights), Imm(d, v, z))
    rhs = _stored_product(side, _scaled(Imm(d, v, joint("sizes", n, n)), n))
    when = (*_known, finite(v), unguarded(s), Runs(_product(side, _weights)))
    return Rule(f"number_into_{side}_constants", FAMILY, equation, lhs, rhs, when, Exactness.ROUNDING)


def _fold_scale(side: str, place: str) -> Rule:
    """The factor stands beside the product, on the side `place`."""
    read = summed_over(beside(m, s, t), k)
    lhs = PBin("mul", d, *_pair(place, Load(b, m), _stored_product(side, _weights)))
    rhs = _stored_product(side, _scaled(Load(b, joint("second", n, read)), read))
    when = (*_known, Constant(b), Computed(b), depends_on_less(read, n), Runs(_product(side, _weights)))
    name = f"scale_on_the_{place}_into_{side}_constants"
    return Rule(name, FAMILY, "(x·W)·g ≈ x·(W·g)", lhs, rhs, when, Exactness.ROUNDING)


def _move_scale(side: str, place: str) -> Rule:
    """The factor stands beside the other operand, on the side `place`."""
    lhs = Contract(d, k, *_pair(side, _weights, PBin("mul", d, *_pair(place, Load(b, m), p))))
    rhs = Contract(d, k, *_pair(side, _scaled(Load(b, joint("second", n, m)), m), p))
    when = (*_known, Constant(b), Computed(b), depends_on_less(m, n))
    name = f"scale_on_the_{place}_of_operand_into_{side}_constants"
    return Rule(name, FAMILY, "(x·g)·W ≈ x·(g·W)", lhs, rhs, when, Exactness.ROUNDING)


def _free_invariant(side: str, outer: str, inner: str) -> Rule:
    """The scaled operand stands on this side; within it the other factor q stands on the side `outer`, and the
    statistic beside what is left on the side `inner`."""
    row = Load(b, m)
    lhs = Contract(d, k, *_pair(side, PBin("mul", d, *_pair(outer, q, PBin("mul", d, *_pair(inner, row, p)))), w))
    left = Contract(d, k, *_pair(side, PBin("mul", d, *_pair(outer, q, p)), w))
    rhs = EBin("mul", d, Fin(left), Pure(Load(b, invariant(m, k))))
    name = f"statistic_{inner}_of_scale_{outer}_of_{side}_operand"
    when = (accumulates_exactly(d), is_float(d))
    return Rule(name, FAMILY, "((x·r)·g)·W ≈ ((x·g)·W)·r", Fin(lhs), rhs, when, Exactness.ROUNDING)


RULES = (
    *map(_fold_number, _SIDES),
    *(_fold_scale(side, place) for side, place in product(_SIDES, _SIDES)),
    *(_move_scale(side, place) for side, place in product(_SIDES, _SIDES)),
    *(_free_invariant(*sides) for sides in product(_SIDES, _SIDES, _SIDES)),
)
