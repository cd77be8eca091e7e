"""Scaling: a factor of a product, or of its operand, moves to the place where it is multiplied less often.

A constant factor joins a constant operand, (x·g)·W = x·(g·W) and (x·W)·g = x·(W·g): batch norms fold into filters, and
the gain of a norm into the weights after it. A statistic of a row leaves the sum, ((x·r)·g)·W = r·((x·g)·W): no
normalized copy of x is needed. In an epilogue, a number joins the constants before it, (e·A + B)·v = e·(A·v) + B·v: the
scales of a quantized product and of its result become one. The level is `rounding`: a factor is rounded with one
operand instead of the other, and scales the bound γₙ·|x|·|W| as it scales the sum.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import App, Contract, EBin, Fin, Imm, Load, PBin, Pure, Store, Term
from ir.term.rule import Equal, Exactness, Rule, pattern_variables
from rules.analyses import BufDtype, Computed, Constant, Runs
from rules.constants import finite, is_float, regroup
from rules.equations import add_equation
from rules.primitives import accumulates_exactly, invariant, typed, unguarded
from rules.regrouping import beside, depends_on_less, joint, summed_over
from rules.sides import SIDES, on_side, pair

FAMILY = "scaling"

A, B, W, p, q, y, e = pattern_variables("A:B B:B W:B p:P q:P y:P e:E")
a, b, w, at, d, k, t, u, v, z = pattern_variables("a:S b:S w:S at:S d:S k:S t:S u:S v:S z:S")
_known = (accumulates_exactly(d), is_float(d), Equal(BufDtype(W), d), Constant(W), Computed(W))
_product = Store(Fin(Contract(d, k, Load(W, w), p)), t)
"""A product with constants, stored. Rules ask that it `Runs`: a product of constants alone is computed only once."""


def _scale(factor: Term, read: Term, constants: Term = W, own: Term = w) -> App:
    """Constants, read through `own`, times a factor, over the axes along which `read` and `own` move."""
    scaled = PBin("mul", d, Load(constants, joint("first", own, read)), factor)
    return Load(Store(Pure(scaled), typed(d, joint("sizes", own, read))), joint("read", own, read))


def _times(constants: Term) -> App:
    """The stored product with other constants in the place of W."""
    return Load(Store(Fin(Contract(d, k, constants, p)), t), at)


def _fold_number(side: str) -> Rule:
    """The constants stand on this side of the product."""
    lhs = PBin("mul", d, Load(_product, at), Imm(d, v, z))
    rhs = _times(_scale(Imm(d, v, joint("sizes", w, w)), w))
    when = (*_known, finite(v), unguarded(at), Runs(_product))
    return on_side(side, Rule(f"number_into_{side}_constants", FAMILY, "", lhs, rhs, when, Exactness.ROUNDING))


def _fold_scale(side: str, place: str) -> Rule:
    """The factor B stands beside the product, on the side `place`."""
    read = summed_over(beside(b, at, t), k)
    lhs = PBin("mul", d, *pair(place, Load(B, b), Load(_product, at)))
    rhs = _times(_scale(Load(B, joint("second", w, read)), read))
    when = (*_known, Constant(B), Computed(B), depends_on_less(read, w), Runs(_product))
    name = f"scale_on_the_{place}_into_{side}_constants"
    return on_side(side, Rule(name, FAMILY, "", lhs, rhs, when, Exactness.ROUNDING))


def _move_scale(side: str, place: str) -> Rule:
    """The factor B stands beside the operand p, on the side `place`."""
    lhs = Contract(d, k, Load(W, w), PBin("mul", d, *pair(place, Load(B, b), p)))
    rhs = Contract(d, k, _scale(Load(B, joint("second", w, b)), b), p)
    when = (*_known, Constant(B), Computed(B), depends_on_less(b, w))
    name = f"scale_on_the_{place}_of_operand_into_{side}_constants"
    return on_side(side, Rule(name, FAMILY, "", lhs, rhs, when, Exactness.ROUNDING))


def _free_invariant(side: str, outer: str, inner: str) -> Rule:
    """The operand on this side is p, scaled twice: by the statistic B on the side `inner`, then by q on the side
    `outer`."""
    scaled = PBin("mul", d, *pair(outer, q, PBin("mul", d, *pair(inner, Load(B, b), p))))
    left = Contract(d, k, PBin("mul", d, *pair(outer, q, p)), y)
    rhs = EBin("mul", d, Fin(left), Pure(Load(B, invariant(b, k))))
    name = f"statistic_{inner}_of_scale_{outer}_of_{side}_operand"
    when = (accumulates_exactly(d), is_float(d))
    return on_side(side, Rule(name, FAMILY, "", Fin(Contract(d, k, scaled, y)), rhs, when, Exactness.ROUNDING))


def _times_number(constants: Term, own: Term) -> App:
    """Constants times the number v, at the output index."""
    return Pure(_scale(Imm(d, v, joint("sizes", own, own)), own, constants, own))


_times_v = Pure(Imm(d, v, z))
_factors = {
    "scale": (Pure(Load(A, a)), _times_number(A, a), (Constant(A), Computed(A), Equal(BufDtype(A), d))),
    "number": (Pure(Imm(d, u, z)), Pure(Imm(d, regroup("mul", d, u, v), z)), ()),
}
"""A known factor of an epilogue, the factor times v, and when it is known."""


def _join_factor() -> Rule:
    scale, scaled, known = _factors["scale"]
    lhs = EBin("mul", d, EBin("mul", d, e, scale), _times_v)
    when = (accumulates_exactly(d), is_float(d), finite(v), *known)
    return Rule("number_into_factor", FAMILY, "", lhs, EBin("mul", d, e, scaled), when, Exactness.ROUNDING)


def _join_affine(kind: str, place: str) -> Rule:
    """The addend B stands on the side `place` of the product of e and a known factor."""
    factor, scaled, known = _factors[kind]
    lhs = EBin("mul", d, EBin("add", d, *pair(place, Pure(Load(B, b)), EBin("mul", d, e, factor))), _times_v)
    rhs = EBin("add", d, *pair(place, _times_number(B, b), EBin("mul", d, e, scaled)))
    when = (accumulates_exactly(d), is_float(d), finite(v), *known, Constant(B), Computed(B), Equal(BufDtype(B), d))
    name = f"number_into_{kind}_and_addend_{'before' if place == 'left' else 'after'}"
    return Rule(name, FAMILY, "", lhs, rhs, when, Exactness.ROUNDING)


RULES = (
    *map(_fold_number, SIDES),
    *(_fold_scale(*sides) for sides in product(SIDES, SIDES)),
    *(_move_scale(*sides) for sides in product(SIDES, SIDES)),
    *(_free_invariant(*sides) for sides in product(SIDES, SIDES, SIDES)),
    add_equation(_join_factor()),
    *(add_equation(_join_affine(kind, place)) for kind, place in product(_factors, SIDES)),
)
