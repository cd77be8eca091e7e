"""Merging: products of one operand become parts of one product, {x·A, x·B} = split(x·[A|B]).

The other operands are constants, as weights are: of queries, keys and values, or of the branches of an inception block,
whose windows must be alike. One after another they are put together (`eqsat.egraph.places` knows their order), so that
n products make n − 1 larger ones; the last is that of all, and those who read a part read it there.

Constants that are added to the parts, as biases are, are added to all of them at once.

[A|B] is A and B, each padded with zeros to both, added: no sum changes its order, but −0 may become 0.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import App, Contract, Fin, Load, PBin, Pure, Store, Term
from ir.term.rule import Condition, Equal, Exactness, Exists, Rule, pattern_variables
from rules.analyses import BufDtype, Computed, Constant, Merged, Parted, Place
from rules.concatenation import adjacent, are_partial, are_whole, is_partial, is_whole, merged, placed_together
from rules.primitives import typed
from rules.regrouping import joint

FAMILY = "merging"

b, x, c, f, e, m, n, u, w, d, k, s, t, v = pattern_variables("b:B x:B c:B f:B e:E m:S n:S u:S w:S d:S k:S s:S t:S v:S")
_SIDES = ("left", "right")
_maps = (m, n, u, w, k)


def _product(side: str, read: Term, weights: Term) -> App:
    """A contraction of x with weights, which stand on this side."""
    operand = Load(x, read)
    return Contract(d, k, *((weights, operand) if side == "left" else (operand, weights)))


def _merge(side: str, part: str, last: bool) -> Rule:
    """The product of f joins that of c, which are all the inputs before it; `part`: whose product is read there;
    `last`: whether f is the last."""
    first, second = _product(side, m, Load(c, n)), _product(side, u, Load(f, w))
    at_c, at_f = merged("first", *_maps), merged("second", *_maps)
    both = Store(
        Pure(PBin("add", BufDtype(c), Load(c, joint("first", at_c, at_f)), Load(f, joint("second", at_c, at_f)))),
        typed(BufDtype(c), joint("sizes", at_c, at_f)),
    )
    whole = Store(
        Fin(_product(side, merged("shared", *_maps), Load(both, joint("read", at_c, at_f)))),
        typed(d, merged("sizes", *_maps)),
    )
    mine, others = (first, second) if part == "first" else (second, first)
    one, two = Store(Fin(mine), t), Store(Fin(others), v)
    when: tuple[Condition, ...] = (
        Exists(two),
        *map(Parted, (one, two)),
        Equal(BufDtype(f), BufDtype(c)),
        (is_whole if last else is_partial)(placed_together(Place(c), Place(f))),
        Computed(x),
    )
    name, equation = f"{part}_part_{'of_all_' * last}by_{side}_weights", "{x·A, x·B} = split(x·[A|B])"
    rhs = Store(Pure(Load(whole, merged(f"of_{part}", *_maps))), t)
    return Rule(name, FAMILY, equation, one, rhs, when, Exactness.REASSOCIATE, passing=not last)


def _combine(part: str, last: bool) -> Rule:
    """Constants b and c are added to two parts of x that stand side by side; `part` and `last` as in `_merge`."""
    parts = (v, m, n, u, w)
    values = [PBin("add", d, Load(Store(e, v), at), Load(each, read)) for at, each, read in ((m, b, n), (u, c, w))]
    one, two = (Store(Pure(value), type_) for value, type_ in zip(values, (t, s), strict=True))
    at_b, at_c = adjacent("first", *parts), adjacent("second", *parts)
    both = Store(
        Pure(PBin("add", d, Load(b, joint("first", at_b, at_c)), Load(c, joint("second", at_b, at_c)))),
        typed(d, joint("sizes", at_b, at_c)),
    )
    whole = Store(
        Pure(PBin("add", d, Load(Store(e, v), adjacent("read", *parts)), Load(both, joint("read", at_b, at_c)))),
        typed(d, adjacent("sizes", *parts)),
    )
    mine, other = (one, two) if part == "first" else (two, one)
    worth = (Merged(Store(e, v)), *map(Constant, (b, c)), *map(Computed, (b, c)))
    when: tuple[Condition, ...] = (Exists(other), *worth, (are_whole if last else are_partial)(*parts))
    name, equation = f"{part}_part_{'of_all_' * last}beside_constants", "{T[s₁] + b, T[s₂] + c} = split(T + [b|c])"
    rhs = Store(Pure(Load(whole, adjacent(f"of_{part}", *parts))), mine.field("type"))
    return Rule(name, FAMILY, equation, mine, rhs, when, Exactness.REASSOCIATE, passing=not last)


_PARTS = tuple(product(("first", "second"), (False, True)))
RULES = (
    *(_merge(side, part, last) for side in _SIDES for part, last in _PARTS),
    *(_combine(part, last) for part, last in _PARTS),
)
