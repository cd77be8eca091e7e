"""Terms that no row of a tile sees: their score is -∞ because of their position, as in causal attention.

    s[i, k] = where(k ≤ i, …, -∞)     rows up to 127 see terms up to 127

The weight of such a term is 0. If its value is finite, the term adds 0, and a tile may end with the last term that one
of its rows sees. A tile has one turn at least: the result of a row that sees no term is NaN.
"""

from __future__ import annotations

import msgspec

from codegen.plan.stream_view import StreamView
from ir.index.expr import AxisExpr
from ir.index.map import AxisMap, compose
from ir.region.region import Number, Op, Operand

_UNSEEN = ("-inf", float("-inf"))
_BELOW = {"cmple": (0, 1, 0), "cmplt": (0, 1, 1), "cmpge": (1, 0, 0), "cmpgt": (1, 0, 1)}
"""Comparison → positions of the lesser and of the greater operand, and the least difference between them."""


class LastSeen(msgspec.Struct, frozen=True):
    """Row `i` sees terms up to `step`·i + `shift`, where i < `size` is the digit of the rows' innermost loop. The
    region's value `condition` is true for exactly these terms and has no other use."""

    step: int
    shift: int
    size: int
    condition: str

    def holds_for(self, view: StreamView, bm: int) -> bool:
        """Whether the last row of every tile of `bm` rows sees the most terms: no tile crosses the end of the loop."""
        return len(view.roles.rows) == 1 or self.size % bm == 0

    def turns(self, last: int, terms: int, most: int) -> int:
        """Turns of `terms` terms, at most `most`, for a tile whose last row is `last`."""
        return min(most, max(1, (self.step * last + self.shift) // terms + 1))

    def mean_turns(self, view: StreamView, bm: int, terms: int) -> float:
        """Turns of a tile of `bm` rows, in the mean."""
        most, tiles = -(-view.terms // terms), -(-self.size // bm)
        return sum(self.turns(tile * bm + bm - 1, terms, most) for tile in range(tiles)) / max(tiles, 1)


def last_seen(view: StreamView) -> LastSeen | None:
    """The bound of the terms that rows see; None where every row may see all terms."""
    roles = view.roles
    if len(roles.terms) != 1 or not roles.rows:
        return None
    mask = _mask(view)
    if mask is None:
        return None
    condition, bound = mask
    row = roles.rows[-1]
    step = bound.coeff(row) if bound.axes <= {row} and bound.is_affine else None
    if step is None or step < 0 or _count_uses(view, condition) > 1:
        return None
    return LastSeen(step, bound.const, roles.sizes[row], condition)


def _count_uses(view: StreamView, value: str) -> int:
    read = [read for let in view.region.body for read in let.op.reads]
    return (*read, *(result.value for result in view.region.yields)).count(value)


def _mask(view: StreamView) -> tuple[str, AxisExpr] | None:
    """The condition on positions outside which a score is -∞, and the greatest term for which it holds, over the
    loops."""
    ops = {let.name: let.op for let in view.region.body}
    name, at = view.roles.score, view.roles.read
    while name in ops and not at.guards:
        op = ops[name]
        kept = op.inputs[0]
        if op.fn == "where" and isinstance(op.inputs[2], Number) and op.inputs[2].number in _UNSEEN:
            condition = op.inputs[0]
            bound = _bound(view, ops, condition, at)
            if isinstance(condition, Operand) and bound is not None:
                return condition.value, bound
            kept = op.inputs[1]
        elif op.kind not in ("cast", "copy"):
            return None
        if not isinstance(kept, Operand):
            return None
        name, at = kept.value, compose(kept.map, at)
    return None


def _bound(view: StreamView, ops: dict[str, Op], condition: Operand | Number, at: AxisMap) -> AxisExpr | None:
    """The greatest term for which a condition holds; None where it is no comparison of a term with an index."""
    op = ops.get(condition.value) if isinstance(condition, Operand) else None
    if op is None or op.fn not in _BELOW or not isinstance(condition, Operand):
        return None
    place = compose(condition.map, at)
    less, more, apart = _BELOW[op.fn]
    small, great = _index(ops, op.inputs[less], place), _index(ops, op.inputs[more], place)
    if place.guards or small is None or great is None:
        return None
    (term,) = view.roles.terms
    room = (great - small).shift(-apart)
    return room + AxisExpr(0, ((term, 1),)) if room.coeff(term) == -1 else None


def _index(ops: dict[str, Op], value: Operand | Number, at: AxisMap) -> AxisExpr | None:
    """The value of an integer that depends on the position alone; None of any other value."""
    if isinstance(value, Number):
        return AxisExpr(int(value.number)) if value.dtype in ("i32", "i64") else None
    op = ops.get(value.value)
    if op is None or op.kind != "index" or op.index_map is None or op.dtype not in ("i32", "i64"):
        return None
    read = compose(op.index_map, compose(value.map, at))
    return None if read.guards else read.exprs[0]
