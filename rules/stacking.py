"""Stacking: a sum of two products is one product whose sum is as long as both, X·A + Y·B = [X|Y]·[A;B].

So it is for the gates of recurrent cells, for the projection beside a residual block, for what is left of x·(W + A·B):
one kernel, and no product in memory that only waits for another. [A;B] is put together when the program is built; [X|Y]
is no buffer: either part is read where it stands, as 0 beside it. A stacked product is a product, and may be stacked
with a third; every addition is used up once, so that this comes to an end.

Each term is multiplied as it was, and their sum only regrouped; the level is `rounding` for floats narrower than their
accumulator, whose products are no longer rounded before they are added.
"""

from __future__ import annotations

from ir.term.language import App, Contract, Fin, Load, PBin, Pure, Store, Term
from ir.term.rule import Condition, Equal, Exactness, Rule, pattern_variables
from rules.analyses import BufDtype, Computed, Constant, Merged
from rules.blocks import first_block, in_place, second_block, stacked_sizes, type_over
from rules.primitives import (
    accumulates_exactly,
    moves,
    non_expanding,
    one_of,
    takes_sign,
    typed,
    unguarded,
    without_unit,
)
from rules.regrouping import joint

FAMILY = "stacking"

x, y, a, b, e, f, o, d, k, j, m, n, s, t, u, v, w, z = pattern_variables(
    "x:B y:B a:B b:B e:E f:E o:S d:S k:S j:S m:S n:S s:S t:S u:S v:S w:S z:S"
)
_SIDES = ("left", "right")


def _product(side: str, sizes: Term, operand: Term, weights: Term) -> App:
    """A contraction with weights, which stand on this side."""
    return Contract(d, sizes, *((weights, operand) if side == "left" else (operand, weights)))


def _stack(side: str, narrow: bool) -> Rule:
    """x(m)·a(n) over k, read at s, and y(u)·b(w) over j, read at z."""
    one = Load(Store(Fin(_product(side, k, Load(x, m), Load(a, n))), t), s)
    two = Load(Store(Fin(_product(side, j, Load(y, u), Load(b, w))), v), z)
    at_x, at_a = (first_block(read, s, k, j) for read in (m, n))
    at_y, at_b = (second_block(read, z, k, j) for read in (u, w))
    weights = PBin(o, BufDtype(a), Load(a, joint("first", at_a, at_b)), Load(b, joint("second", at_a, at_b)))
    stored = Store(Pure(weights), typed(BufDtype(a), joint("sizes", at_a, at_b)))
    operand = PBin("add", BufDtype(x), Load(x, at_x), Load(y, at_y))
    whole = _product(side, stacked_sizes(k, j), operand, Load(stored, joint("read", at_a, at_b)))
    when: tuple[Condition, ...] = (
        *map(Constant, (a, b)),
        *map(Computed, (x, y, a, b)),
        one_of(d, "fp16 bf16") if narrow else accumulates_exactly(d),
        one_of(o, "add sub"),
        Equal(BufDtype(y), BufDtype(x)),
        Equal(BufDtype(b), BufDtype(a)),
        takes_sign(o, BufDtype(b), d),
        *map(without_unit, (k, j)),
        *map(unguarded, (s, z)),
        *map(non_expanding, (s, z)),
    )
    return Rule(
        f"stack_{'narrow_' * narrow}products_with_{side}_weights",
        FAMILY,
        "X·A ± Y·B = [X|Y]·[A;±B]" if side == "right" else "A·X ± B·Y = [A|±B]·[X;Y]",
        PBin(o, d, one, two),
        Load(Store(Fin(whole), type_over(d, s)), in_place(type_over(d, s))),
        when,
        Exactness.ROUNDING if narrow else Exactness.REASSOCIATE,
    )


def _add_wholes() -> Rule:
    """Where the same part of two merged products is added, all of both is."""
    one, two = (Store(each, t) for each in (e, f))
    whole = PBin(o, d, *(Load(each, in_place(t)) for each in (one, two)))
    return Rule(
        "add_merged_products",
        FAMILY,
        "T[m(i)] ± S[m(i)] = (T ± S)[m(i)]",
        PBin(o, d, Load(one, m), Load(two, m)),
        Load(Store(Pure(whole), t), m),
        (*map(Merged, (one, two)), one_of(o, "add sub"), moves(m, t), unguarded(m)),
    )


RULES = (*(_stack(side, narrow) for side in _SIDES for narrow in (False, True)), _add_wholes())
