"""Detects repeating turns of a loop: after how many turns its accesses reach the same stages again, and how long its
conditions keep their truth. A ring of stages has few states, so a long loop need not be run to its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ir.index.expr import AxisExpr, Box
from ir.index.text import Remainder, bounds, pieces
from ir.kernel.gpu.effects import Branch, Effect, EffectLoop, Set, SharedAccess
from ir.kernel.nodes import Within


def period(loop: EffectLoop) -> int | None:
    """Turns after which all effects repeat, conditions aside; None if they never do."""
    turns = 1
    for expr in _exprs(loop.body):
        distance = _period(expr, loop.variable)
        if distance is None:
            return None
        turns = math.lcm(turns, distance // math.gcd(distance, loop.step))
    return turns


def is_steady(loop: EffectLoop, first: int, last: int, box: Box) -> bool:
    """Whether every condition in the loop keeps its truth while the loop's variable goes from `first` to `last`. `box`
    has the ranges of the other variables; a condition that differs between threads never keeps its truth."""
    around = (*box[: loop.variable], (min(first, last), max(first, last)), *box[loop.variable + 1 :])
    return all(
        _is_constant(condition, around) for condition in _conditions(loop.body) if loop.variable in condition.expr.axes
    )


def _is_constant(condition: Within, box: Box) -> bool:
    low, high = bounds(condition.expr, box)
    return (condition.low <= low and high < condition.high) or high < condition.low or condition.high <= low


def _period(expr: AxisExpr, variable: int) -> int | None:
    """The distance of the variable after which the expression repeats its values; None if it never does."""
    distance = 1
    for _, piece in pieces(expr)[1]:
        if isinstance(piece, Remainder):
            if variable in piece.expr.axes:
                step = piece.expr.coeff(variable)
                if step is None:
                    return None
                distance = math.lcm(distance, piece.modulus // math.gcd(piece.modulus, step))
        elif variable in AxisExpr(0, ((piece, 1),)).axes:
            return None
    return distance


def _exprs(body: Sequence[Effect]) -> Iterator[AxisExpr]:
    """The expressions that decide the effects, without those of conditions."""
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
