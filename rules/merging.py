"""Merging: products of one operand become parts of one product, {x·A, x·B} = split(x·[A|B]).

The other operands are constants, such as weights: of queries, keys and values, or of the branches of an inception
block, whose windows must be alike. They are put together one after another, in an order that `eqsat.egraph.places`
decides, so that n products make n − 1 larger ones. The last of these holds all products, and the readers of a product
read its part of the last one.

Constants that are added to the parts, such as biases, are added to all parts at once.

[A|B] is the sum of A and B, each padded with zeros to the size of both. No sum changes its order, but −0 may become 0.
"""

from __future__ import annotations

from itertools import product

from ir.term.language import App, Contract, Fin, Load, PBin, Pure, Store, Term
from ir.term.rule import Condition, Equal, Exactness, Exists, Rule, pattern_variables
from rules.analyses import BufDtype, Computed, Constant, Merged, Parted, Place
from rules.concatenation import adjacent, are_partial, are_whole, is_partial, is_whole, merged, placed_together
from rules.equations import add_equation
from rules.primitives import typed
from rules.regrouping import joint
from rules.sides import SIDES, on_side

FAMILY = "merging"

A, B, X, e, a, b, xa, xb, d, k, t, ta, tb = pattern_variables("A:B B:B X:B e:E a:S b:S xa:S xb:S d:S k:S t:S ta:S tb:S")
_PARTS = tuple(product(("first", "second"), (False, True)))


def _sum(element: Term, at_a: Term, at_b: Term) -> App:
    """A read of the sum of A and B, stored in one buffer, in the place of reads of A at `at_a` and of B at `at_b`."""
    added = PBin("add", element, Load(A, joint("first", at_a, at_b)), Load(B, joint("second", at_a, at_b)))
    return Load(Store(Pure(added), typed(element, joint("sizes", at_a, at_b))), joint("read", at_a, at_b))


def _merge(side: str, part: str, last: bool) -> Rule:
    """The product of B joins the product of A; A holds all inputs before B. X is read at xa beside A, at xb beside B.

    side: of the weights. part: the product that is replaced. last: B is the last of the inputs."""
    maps = (xa, a, xb, b, k)
    both = _sum(BufDtype(A), merged("first", *maps), merged("second", *maps))
    whole = Store(Fin(Contract(d, k, both, Load(X, merged("shared", *maps)))), typed(d, merged("sizes", *maps)))
    one = Store(Fin(Contract(d, k, Load(A, a), Load(X, xa))), ta)
    two = Store(Fin(Contract(d, k, Load(B, b), Load(X, xb))), tb)
    mine, other = (one, two) if part == "first" else (two, one)
    when: tuple[Condition, ...] = (
        Exists(other),
        *map(Parted, (mine, other)),
        Equal(BufDtype(B), BufDtype(A)),
        (is_whole if last else is_partial)(placed_together(Place(A), Place(B))),
        Computed(X),
    )
    name = f"{part}_part_{'of_all_' * last}by_{side}_weights"
    rhs = Store(Pure(Load(whole, merged(f"of_{part}", *maps))), mine.field("type"))
    rule = Rule(name, FAMILY, "", mine, rhs, when, Exactness.REASSOCIATE, passing=not last)
    return on_side(side, rule)


def _combine(part: str, last: bool) -> Rule:
    """Constants A and B are added to two parts of e that stand side by side, at xa and xb; `part` and `last` as in
    `_merge`."""
    parts = (t, xa, a, xb, b)
    held = Store(e, t)
    one, two = (
        Store(Pure(PBin("add", d, Load(held, at), Load(constants, read))), type_)
        for at, constants, read, type_ in ((xa, A, a, ta), (xb, B, b, tb))
    )
    both = _sum(d, adjacent("first", *parts), adjacent("second", *parts))
    added = PBin("add", d, Load(held, adjacent("read", *parts)), both)
    whole = Store(Pure(added), typed(d, adjacent("sizes", *parts)))
    mine, other = (one, two) if part == "first" else (two, one)
    worth = (Merged(held), *map(Constant, (A, B)), *map(Computed, (A, B)))
    when: tuple[Condition, ...] = (Exists(other), *worth, (are_whole if last else are_partial)(*parts))
    rhs = Store(Pure(Load(whole, adjacent(f"of_{part}", *parts))), mine.field("type"))
    name = f"{part}_part_{'of_all_' * last}beside_constants"
    return add_equation(Rule(name, FAMILY, "", mine, rhs, when, Exactness.REASSOCIATE, passing=not last))


RULES = (
    *(_merge(side, part, last) for side in SIDES for part, last in _PARTS),
    *(_combine(part, last) for part, last in _PARTS),
)
