"""Stacking: a sum of two products becomes one product over both their terms, X·A + Y·B = [X|Y]·[A;B].

Examples are the gates of recurrent cells, the projection beside a residual block, and the rest of x·(W + A·B): one
kernel is left, and no product waits in memory for another. [A;B] is put together when the program is built. [X|Y] is no
buffer: either part is read in place, as 0 beside it. A stacked product may be stacked with a third product. Every rule
uses up one addition, so that the rules come to an end.

Terms are multiplied as they were, and their sum is only regrouped. The level is `rounding` for floats narrower than
their accumulator, whose products are no longer rounded before they are added.
"""

from __future__ import annotations

from ir.term.language import Contract, Fin, Load, PBin, Pure, Store
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
from rules.sides import SIDES, on_side

FAMILY = "stacking"

A, X, B, Y, e, f, a, x, b, y, tx, ty, atx, aty, o, d, j, k, t, m = pattern_variables(
    "A:B X:B B:B Y:B e:E f:E a:S x:S b:S y:S tx:S ty:S atx:S aty:S o:S d:S j:S k:S t:S m:S"
)


def _stack(side: str, narrow: bool) -> Rule:
    """A·X, over k, is read at atx; B·Y, over j, at aty. The weights A and B stand on this side."""
    one = Load(Store(Fin(Contract(d, k, Load(A, a), Load(X, x))), tx), atx)
    two = Load(Store(Fin(Contract(d, j, Load(B, b), Load(Y, y))), ty), aty)
    at_x, at_a = (first_block(read, atx, k, j) for read in (x, a))
    at_y, at_b = (second_block(read, aty, k, j) for read in (y, b))
    weights = PBin(o, BufDtype(A), Load(A, joint("first", at_a, at_b)), Load(B, joint("second", at_a, at_b)))
    stored = Store(Pure(weights), typed(BufDtype(A), joint("sizes", at_a, at_b)))
    operand = PBin("add", BufDtype(X), Load(X, at_x), Load(Y, at_y))
    whole = Contract(d, stacked_sizes(k, j), Load(stored, joint("read", at_a, at_b)), operand)
    when: tuple[Condition, ...] = (
        *map(Constant, (A, B)),
        *map(Computed, (X, Y, A, B)),
        one_of(d, "fp16 bf16") if narrow else accumulates_exactly(d),
        one_of(o, "add sub"),
        Equal(BufDtype(Y), BufDtype(X)),
        Equal(BufDtype(B), BufDtype(A)),
        takes_sign(o, BufDtype(B), d),
        *map(without_unit, (k, j)),
        *map(unguarded, (atx, aty)),
        *map(non_expanding, (atx, aty)),
    )
    name = f"stack_{'narrow_' * narrow}products_with_{side}_weights"
    rhs = Load(Store(Fin(whole), type_over(d, atx)), in_place(type_over(d, atx)))
    level = Exactness.ROUNDING if narrow else Exactness.REASSOCIATE
    return on_side(side, Rule(name, FAMILY, "", PBin(o, d, one, two), rhs, when, level))


_one, _two = Store(e, t), Store(f, t)
_whole = PBin(o, d, Load(_one, in_place(t)), Load(_two, in_place(t)))

RULES = (
    *(_stack(side, narrow) for side in SIDES for narrow in (False, True)),
    Rule("add_merged_products", FAMILY, "{e}[m(i)] ± {f}[m(i)] = {{e}[i] ± {f}[i]}[m(i)], the same part of both",
         PBin(o, d, Load(_one, m), Load(_two, m)), Load(Store(Pure(_whole), t), m),
         (Merged(_one), Merged(_two), one_of(o, "add sub"), moves(m, t), unguarded(m))),
)  # fmt: skip
