"""Which threads agree on a value: all threads of a block, the lanes of a warp, or none. Control around a statement
that threads execute together may depend only on values that they agree on."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from ir.index.expr import AxisExpr, FloorDiv
from ir.kernel.gpu.kernel import BLOCK_X, BLOCK_Y, BLOCK_Z, LANE, THREAD, WARP, WARP_LANES
from ir.kernel.nodes import Within


class Spread(enum.IntEnum):
    """The threads among which a value may differ."""

    BLOCK = 0
    """All threads of a block have the same value."""
    WARP = 1
    """The lanes of a warp have the same value."""
    THREAD = 2
    """Lanes may have different values."""


ID_SPREADS = {THREAD: Spread.THREAD, LANE: Spread.THREAD, WARP: Spread.WARP} | dict.fromkeys(
    (BLOCK_X, BLOCK_Y, BLOCK_Z), Spread.BLOCK
)
"""The spread of the variables that every kernel starts with."""


def spread(exprs: Iterable[AxisExpr], known: dict[int, Spread]) -> Spread:
    """The spread of expressions over variables of known spread."""
    return max((_spread_of_expr(expr, known) for expr in exprs), default=Spread.BLOCK)


def spread_of(conditions: Sequence[Within], known: dict[int, Spread]) -> Spread:
    """The spread of the truth of conditions."""
    return spread((condition.expr for condition in conditions), known)


def _spread_of_expr(expr: AxisExpr, known: dict[int, Spread]) -> Spread:
    widest = Spread.BLOCK
    for term, _ in expr.terms:
        if not isinstance(term, FloorDiv):
            widest = max(widest, known.get(term, Spread.THREAD))
        elif term.expr.lone_axis == THREAD and term.expr.const == 0 and term.divisor % WARP_LANES == 0:
            widest = max(widest, Spread.WARP)
        else:
            widest = max(widest, _spread_of_expr(term.expr, known))
    return widest
