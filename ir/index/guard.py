"""Guards: conjunctions of bounds on index expressions, in a canonical form, under which a read happens.

The bounds of a guard are always-false, or as few as the rules below find. The expression of a bound has no constant,
coprime coefficients and a positive first coefficient. No bound is implied by the intervals of the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ir.diagnostics import Kind, fail
from ir.index.expr import (
    ZERO,
    AxisExpr,
    Box,
    FloorDiv,
    axis_names,
    common_divisors,
    expr_order,
    interval,
    parse_expr,
    simplify,
    without_floor,
)

_ROUNDS = 8  # at most so often the bounds and the box narrow one another
_BOUND = re.compile(r"(-?\d+)<=(.+)<(-?\d+)")


class Bound:
    """lo <= expr < hi; written `1<=2*i0 + i1<9`."""

    __slots__ = ("expr", "hi", "lo")

    def __init__(self, expr: AxisExpr, lo: int, hi: int) -> None:
        self.expr, self.lo, self.hi = expr, lo, hi

    def __str__(self) -> str:
        return self.text()

    def text(self, names: tuple[str, ...] | None = None) -> str:
        """The bound over axes of these names; over i0, i1, … without names."""
        return f"{self.lo}<={self.expr.text(names)}<{self.hi}"

    def __repr__(self) -> str:
        return f"Bound({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bound):
            return NotImplemented
        return self.lo == other.lo and self.hi == other.hi and self.expr == other.expr

    def __hash__(self) -> int:
        return hash((self.expr, self.lo, self.hi))

    def holds(self, point: Any) -> Any:
        """Whether the bound holds at a point of ints; for integer arrays, the mask of the points where it holds."""
        value = self.expr.eval(point)
        return (self.lo <= value) & (value < self.hi)


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """The read happens where all `bounds` hold; elsewhere the value is `fill`."""

    bounds: tuple[Bound, ...]
    fill: float

    @property
    def is_never(self) -> bool:
        return self.bounds == NEVER

    def __str__(self) -> str:
        return self.text()

    def text(self, names: tuple[str, ...] | None = None) -> str:
        """The guard over axes of these names; over i0, i1, … without names."""
        holds = "false" if self.is_never else " and ".join(bound.text(names) for bound in self.bounds)
        return f"if {holds} else {self.fill!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guard) and self.bounds == other.bounds and same_fill(self.fill, other.fill)

    def __hash__(self) -> int:
        return hash((self.bounds, repr(self.fill)))

    def holds(self, point: Any) -> Any:
        """Whether all bounds hold at a point of ints; for integer arrays, the mask of the points where they do."""
        inside: Any = True
        for bound in self.bounds:
            inside = inside & bound.holds(point)
        return inside


NEVER = (Bound(ZERO, 1, 1),)
"""Bounds that no point satisfies: the map of such a guard is constant."""


def canonical_fill(value: Any) -> float:
    """The one object for a value: NaN is math.nan, integral floats are ints, -0.0 stays a float."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, int):
        return int(value)
    if math.isnan(value):
        return math.nan
    whole = abs(value) < 2**53 and value == int(value) and (value != 0 or math.copysign(1, value) > 0)
    return int(value) if whole else float(value)


def same_fill(a: float, b: float) -> bool:
    """Whether two fills are written alike: NaN equals NaN, 0 differs from -0.0."""
    return a is b or repr(a) == repr(b)


def parse_bound(text: str) -> Bound:
    """The inverse of `str(bound)`.

    Raises:
        EqsatError: MalformedGraph, when `text` is no bound over axes `i0, i1, …`.
    """
    match = _BOUND.fullmatch(text.strip())
    if match is None:
        fail(Kind.MALFORMED_GRAPH, "tiny", f"not a bound: {text!r}", hint="lo<=expression<hi")
    count = 1 + max((int(name) for name in re.findall(r"\bi(\d{1,3})\b", match[2])), default=-1)
    return Bound(parse_expr(match[2], axis_names(count)), int(match[1]), int(match[3]))


@lru_cache(maxsize=1 << 15)
def tighten(bounds: tuple[Bound, ...], box: Box) -> tuple[tuple[Bound, ...], Box] | None:
    """The canonical bounds over `box`, and the box in which they hold; None if they hold nowhere."""
    ranges = list(box)
    constraints: list[AxisExpr] = []
    for bound in bounds:
        position = bound.expr.lone_axis
        if position is None:
            constraints += _one_sided(bound)
        else:  # a bound on one axis: the common case
            first, last = ranges[position]
            low, high = bound.lo - bound.expr.const, bound.hi - 1 - bound.expr.const
            ranges[position] = (max(first, low), min(last, high))
            if ranges[position][0] > ranges[position][1]:
                return None
    closed = _close(constraints, tuple(ranges))
    if closed is None:
        return None
    inner, several = closed
    singles = [
        constraint
        for position, ((low, high), (first, last)) in enumerate(zip(inner, box, strict=True))
        for constraint, news in (
            (AxisExpr(-low, ((position, 1),)), low > first),
            (AxisExpr(high, ((position, -1),)), high < last),
        )
        if news
    ]
    return _join_sides(_drop_implied(several, singles, box) if several else singles, box), inner


def _one_sided(bound: Bound) -> tuple[AxisExpr, AxisExpr]:
    """The expressions that must be ≥ 0."""
    return bound.expr.shift(-bound.lo), (bound.expr * -1).shift(bound.hi - 1)


def _close(constraints: list[AxisExpr], box: Box) -> tuple[Box, list[AxisExpr]] | None:
    """The part of `box` that the constraints e ≥ 0 leave, and the constraints over several terms that remain; None
    if no point satisfies all."""
    inner, several = box, constraints
    for _ in range(_ROUNDS if constraints else 0):
        several = []
        inner = box
        for given in constraints:
            constraint = _simplest(given, inner)
            if not constraint.terms:
                if constraint.const < 0:
                    return None
                continue
            narrowed = _narrow_box(constraint, inner)
            if narrowed is None:
                return None
            inner = narrowed
            if len(constraint.terms) > 1 or not isinstance(constraint.terms[0][0], int):
                several.append(constraint)
        if inner == box or not several:
            break
        constraints, box = several, inner
    return inner, list(dict.fromkeys(several))


@lru_cache(maxsize=1 << 16)
def _simplest(constraint: AxisExpr, box: Box) -> AxisExpr:
    """An expression that is ≥ 0 at the same points of the box: 0 if at all points, -1 if at none."""
    constraint = simplify(constraint, box)
    while constraint.terms:
        low, high = interval(constraint, box)
        if low >= 0 or high < 0:
            return ZERO if low >= 0 else AxisExpr(-1)
        smaller = _remove_floor(constraint) or _divide(constraint, box)
        if smaller is None:
            return constraint
        constraint = smaller
    return constraint


def _remove_floor(constraint: AxisExpr) -> AxisExpr | None:
    """a + floor(x/q) ≥ 0 is q·a + x ≥ 0, and a - floor(x/q) ≥ 0 is q·a + q - 1 - x ≥ 0."""
    for term, c in constraint.terms:
        if isinstance(term, FloorDiv) and abs(c) == 1:
            rest = constraint - AxisExpr(0, ((term, c),))
            return rest * term.divisor + (term.expr * c).shift(term.divisor - 1 if c < 0 else 0)
    return None


def _divide(constraint: AxisExpr, box: Box) -> AxisExpr | None:
    """g·a + b ≥ 0 is a + k ≥ 0 if floor(b/g) = k on the whole box."""
    for g in common_divisors({abs(c) for _, c in constraint.terms}):
        quotient = without_floor(constraint, g, box)
        if quotient is not None and _weight(quotient) < _weight(constraint):
            return quotient
    return None


def _weight(expr: AxisExpr) -> int:
    return sum(abs(c) for _, c in expr.terms)


def _narrow_box(constraint: AxisExpr, box: Box) -> Box | None:
    """The box without the points that e ≥ 0 excludes along single axes; None if it excludes all."""
    high = interval(constraint, box)[1]
    ranges = list(box)
    for term, c in constraint.terms:
        if isinstance(term, int) and constraint.coeff(term) is not None:
            first, last = box[term]
            slack = high // abs(c)
            ranges[term] = (max(first, last - slack), last) if c > 0 else (first, min(last, first + slack))
            if slack < 0:
                return None
    return tuple(ranges)


def _drop_implied(several: list[AxisExpr], singles: list[AxisExpr], box: Box) -> list[AxisExpr]:
    """The constraints without those that the others imply; constraints over several terms are dropped first."""
    kept = sorted(several, key=expr_order) + singles
    for constraint in list(kept):
        others = [other for other in kept if other is not constraint]
        if not any(_may_imply(constraint, other) for other in others):
            continue
        implied = _close(others, box)
        if implied is not None and interval(constraint, implied[0])[0] >= 0:
            kept = others
    return kept


def _may_imply(a: AxisExpr, b: AxisExpr) -> bool:
    """Whether one could imply the other: they share an axis and are not the two sides of one bound."""
    return not a.axes.isdisjoint(b.axes) and b.terms != tuple((term, -c) for term, c in a.terms)


def _join_sides(constraints: Iterable[AxisExpr], box: Box) -> tuple[Bound, ...]:
    """One bound per expression; a side without constraint takes the range of the box."""
    sides: dict[AxisExpr, tuple[int, int]] = {}
    for constraint in constraints:
        sign = 1 if constraint.terms[0][1] > 0 else -1
        expr = AxisExpr(0, constraint.terms) * sign
        low, high = sides.get(expr) or interval(expr, box)
        if sign > 0:
            low = max(low, -constraint.const)
        else:
            high = min(high, constraint.const)
        sides[expr] = (low, high)
    return tuple(Bound(expr, *_half_open(sides[expr])) for expr in sorted(sides, key=expr_order))


def _half_open(bounds: tuple[int, int]) -> tuple[int, int]:
    return bounds[0], bounds[1] + 1
