"""Who agrees on a value: all threads of a block, the lanes of each warp, or nobody. What is done together must not
hang on what they do not agree on."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from ir.index.expr import AxisExpr, FloorDiv
from ir.kernel.gpu.kernel import BLOCK_X, BLOCK_Y, BLOCK_Z, LANE, THREAD, WARP, WARP_LANES
from ir.kernel.nodes import Within


class Spread(enum.IntEnum):
    """How far a value differs."""

    BLOCK = 0
    """It is the same in all threads of a block."""
    WARP = 1
    """It is the same in the lanes of a warp."""
    THREAD = 2
    """It may differ from lane to lane."""


ID_SPREADS = {THREAD: Spread.THREAD, LANE: Spread.THREAD, WARP: Spread.WARP} | dict.fromkeys(
    (BLOCK_X, BLOCK_Y, BLOCK_Z), Spread.BLOCK
)
"""The spread of the variables that every kernel starts with."""


def spread(exprs: Iterable[AxisExpr], known: dict[int, Spread]) -> Spread:
    """That of expressions over variables of known spread."""
    return max((_of(expr, known) for expr in exprs), default=Spread.BLOCK)


def spread_of(conditions: Sequence[Within], known: dict[int, Spread]) -> Spread:
    """That of the truth of conditions."""
    return spread((each.expr for each in conditions), known)


def _of(expr: AxisExpr, known: dict[int, Spread]) -> Spread:
    found = Spread.BLOCK
    for term, _ in expr.terms:
        if not isinstance(term, FloorDiv):
            found = max(found, known.get(term, Spread.THREAD))
        elif term.expr.lone_axis == THREAD and term.expr.const == 0 and term.divisor % WARP_LANES == 0:
            found = max(found, Spread.WARP)
        else:
            found = max(found, _of(term.expr, known))
    return found
