"""When the turns of a loop repeat: after how many its accesses reach the same stages again, and how far its conditions
stay what they are. A ring of stages is in one of few states, so that a long loop need not be run to its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ir.index.expr import AxisExpr, Box
from ir.index.text import Remainder, bounds, pieces
from ir.kernel.gpu.effects import Branch, Effect, EffectLoop, Set, SharedAccess
from ir.kernel.nodes import Within


def period(loop: EffectLoop) -> int | None:
    """Turns after which all effects but for conditions are the same again; None where they never are."""
    found = 1
    for expr in _exprs(loop.body):
        each = _period(expr, loop.variable)
        if each is None:
            return None
        found = math.lcm(found, each // math.gcd(each, loop.step))
    return found


def steady(loop: EffectLoop, first: int, last: int, box: Box) -> bool:
    """Whether each condition in the loop is one thing while its variable goes from `first` to `last`. `box` holds what
    is known of the others; conditions that threads answer differently are known to none."""
    around = (*box[: loop.variable], (min(first, last), max(first, last)), *box[loop.variable + 1 :])
    return all(_one_truth(each, around) for each in _conditions(loop.body) if loop.variable in each.expr.axes)


def _one_truth(condition: Within, box: Box) -> bool:
    low, high = bounds(condition.expr, box)
    return (condition.low <= low and high < condition.high) or high < condition.low or condition.high <= low


def _period(expr: AxisExpr, variable: int) -> int | None:
    """How far the variable goes until the expression has its values again."""
    found = 1
    for _, piece in pieces(expr)[1]:
        if isinstance(piece, Remainder):
            if variable in piece.expr.axes:
                step = piece.expr.coeff(variable)
                if step is None:
                    return None
                found = math.lcm(found, piece.modulus // math.gcd(piece.modulus, step))
        elif variable in AxisExpr(0, ((piece, 1),)).axes:
            return None
    return found


def _exprs(body: Sequence[Effect]) -> Iterator[AxisExpr]:
    """What decides which effects there are, conditions aside."""
    for effect in body:
        match effect:
            case SharedAccess():
                yield effect.stage
            case Set():
                yield from (effect.expr, *effect.most, *effect.least)
            case EffectLoop():
                yield from (effect.start, effect.stop)
                yield from _exprs(effect.body)
            case Branch():
                yield from _exprs(effect.then)
                yield from _exprs(effect.orelse)


def _conditions(body: Sequence[Effect]) -> Iterator[Within]:
    for effect in body:
        match effect:
            case EffectLoop():
                yield from _conditions(effect.body)
            case Branch():
                yield from effect.conditions
                yield from _conditions(effect.then)
                yield from _conditions(effect.orelse)
