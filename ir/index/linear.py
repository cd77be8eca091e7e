"""The data of quasi-affine expressions and their linear arithmetic, which needs no ranges.

An expression is `const + Σ coefficient·term`; a term is an axis (its position) or `floor(expression / q)` with
an integer q > 0. Functions that may create a floor are in `ir.index.expr`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

_CACHE = 1 << 17


class FloorDiv(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """floor(expr / divisor), divisor ≥ 2. Only `floordiv` creates one."""

    expr: AxisExpr
    divisor: int

    def __str__(self) -> str:
        return _term_text(self, None)


Term: TypeAlias = "int | FloorDiv"


class AxisExpr(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """`const + Σ coefficient·term`; terms are sorted, axes first, and no coefficient is 0."""

    const: int = 0
    terms: tuple[tuple[Term, int], ...] = ()

    def __str__(self) -> str:
        return _text(self)

    def text(self, names: tuple[str, ...] | None = None) -> str:
        """The expression over axes of these names; over i0, i1, … without names."""
        return _text(self, names)

    def __add__(self, other: AxisExpr) -> AxisExpr:
        return linear(self.const + other.const, (*self.terms, *other.terms))

    def __sub__(self, other: AxisExpr) -> AxisExpr:
        return self + other * -1

    def __mul__(self, factor: int) -> AxisExpr:
        if factor == 0:
            return ZERO
        return AxisExpr(self.const * factor, tuple([(term, c * factor) for term, c in self.terms]))

    def shift(self, by: int) -> AxisExpr:
        return AxisExpr(self.const + by, self.terms) if by else self

    @property
    def axes(self) -> frozenset[int]:
        """The axes that the expression depends on, those under floors included."""
        return _axes(self)

    @property
    def is_affine(self) -> bool:
        """Whether the expression has no floor."""
        return all(isinstance(term, int) for term, _ in self.terms)

    @property
    def floors(self) -> int:
        """The number of floors, nested ones included."""
        return _floors(self)

    @property
    def lone_axis(self) -> int | None:
        """The axis k if the expression is i_k + const, else None."""
        if len(self.terms) != 1 or self.terms[0][1] != 1:
            return None
        term = self.terms[0][0]
        return term if isinstance(term, int) else None

    def split(self, axis: int) -> tuple[int, AxisExpr] | None:
        """(c, rest) with self = c·axis + rest and `rest` free of `axis`; None if the axis is under a floor."""
        c = 0
        rest: list[tuple[Term, int]] = []
        for term, coefficient in self.terms:
            if term == axis:
                c = coefficient
            elif isinstance(term, FloorDiv) and axis in term.expr.axes:
                return None
            else:
                rest.append((term, coefficient))
        return c, AxisExpr(self.const, tuple(rest))

    def coeff(self, axis: int) -> int | None:
        """The growth per step of `axis`; None if it is not constant."""
        growth = 0
        for term, coefficient in self.terms:
            if term == axis:
                growth = coefficient
            elif isinstance(term, FloorDiv) and axis in term.expr.axes:
                return None
        return growth

    def slope(self, axis: int) -> Fraction:
        """The mean growth per step of `axis`: floors count as exact quotients."""
        return _slope(self, axis)

    def eval(self, point: Sequence[Any]) -> Any:
        """The value at a point. A coordinate is an int or an integer array; arrays broadcast."""
        value: Any = self.const
        for term, coefficient in self.terms:
            factor = point[term] if isinstance(term, int) else term.expr.eval(point) // term.divisor
            value = value + coefficient * factor
        return value


ZERO = AxisExpr()


def constant(value: int) -> AxisExpr:
    return AxisExpr(value)


def linear(const: int, parts: Iterable[tuple[Term, int]]) -> AxisExpr:
    """const + Σ coefficient·term, with like terms added up."""
    total: dict[Term, int] = {}
    for term, coefficient in parts:
        total[term] = total.get(term, 0) + coefficient
    terms = [item for item in total.items() if item[1]]
    if len(terms) > 1:
        terms.sort(key=_order)
    return AxisExpr(const, tuple(terms))


def weighted_sum(const: int, parts: Iterable[tuple[AxisExpr, int]]) -> AxisExpr:
    """const + Σ coefficient·expression."""
    items: list[tuple[Term, int]] = []
    for expr, factor in parts:
        const += factor * expr.const
        items += [(term, c * factor) for term, c in expr.terms] if factor != 1 else expr.terms
    return linear(const, items)


def split_by_axes(expr: AxisExpr, axes: Collection[int]) -> tuple[AxisExpr, AxisExpr]:
    """The terms that depend on any of the axes; and the others, with the constant."""
    parts: tuple[list[tuple[Term, int]], list[tuple[Term, int]]] = [], []
    for item in expr.terms:
        parts[_axes_of_term(item[0]).isdisjoint(axes)].append(item)
    return AxisExpr(0, tuple(parts[0])), AxisExpr(expr.const, tuple(parts[1]))


def expr_order(expr: AxisExpr) -> tuple[Any, ...]:
    """A sorting key."""
    return tuple((_order(item), item[1]) for item in expr.terms), expr.const


def _order(item: tuple[Term, int]) -> tuple[Any, ...]:
    term = item[0]
    return (0, term) if isinstance(term, int) else _floor_order(term)


@lru_cache(maxsize=_CACHE)
def _floor_order(floor: FloorDiv) -> tuple[Any, ...]:
    return (1, floor.divisor, expr_order(floor.expr))


@lru_cache(maxsize=_CACHE)
def _text(expr: AxisExpr, names: tuple[str, ...] | None = None) -> str:
    terms: list[tuple[int, str]] = []
    for term, c in expr.terms:
        leading_minus = c == -1 and not terms
        name = _term_text(term, names)
        if isinstance(term, FloorDiv) and (abs(c) != 1 or leading_minus):  # `-x//4` would be floor(-x/4)
            name = f"({name})"
        terms.append((c, name))
    return sum_text(terms, expr.const)


def _term_text(term: Term, names: tuple[str, ...] | None) -> str:
    if isinstance(term, int):
        return f"i{term}" if names is None else names[term]
    numerator, is_axis = _text(term.expr, names), term.expr.lone_axis is not None and term.expr.const == 0
    return f"{numerator}//{term.divisor}" if is_axis else f"({numerator})//{term.divisor}"


def sum_text(terms: Iterable[tuple[int, str]], const: int, times: str = "*") -> str:
    """A sum as text, from coefficients and the texts of their factors: `-2*a + b - 3`."""
    pieces: list[str] = []
    for c, name in terms:
        pieces += ["-" if c < 0 else "+", name if abs(c) == 1 else f"{abs(c)}{times}{name}"]
    if const or not pieces:
        pieces += ["-" if const < 0 else "+", str(abs(const))]
    sign = "-" if pieces[0] == "-" else ""
    return sign + " ".join(pieces[1:])


@lru_cache(maxsize=_CACHE)
def _axes(expr: AxisExpr) -> frozenset[int]:
    return frozenset[int]().union(*(_axes_of_term(term) for term, _ in expr.terms))


def _axes_of_term(term: Term) -> frozenset[int]:
    return frozenset([term]) if isinstance(term, int) else term.expr.axes


@lru_cache(maxsize=_CACHE)
def _floors(expr: AxisExpr) -> int:
    return sum(1 + term.expr.floors for term, _ in expr.terms if isinstance(term, FloorDiv))


@lru_cache(maxsize=_CACHE)
def _slope(expr: AxisExpr, position: int) -> Fraction:
    slope = Fraction(0)
    for term, c in expr.terms:
        if isinstance(term, FloorDiv):
            slope += c * _slope(term.expr, position) / term.divisor
        elif term == position:
            slope += c
    return slope
