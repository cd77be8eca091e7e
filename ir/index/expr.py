"""Quasi-affine integer expressions over the axes of a box, in a canonical form.

`x % q` is `x - q*floor(x/q)`. Which form is simplest depends on the ranges of the axes, so every operation that may
produce a floor takes the `Box` of the axes. Only `floordiv` creates floors. It keeps this canonical form:

    coefficients and constant under a floor lie in [0, q), so with axes ≥ 0 a numerator is never negative
    floor(x/q) and -floor((q-1-x)/q) differ by an affine part: the one with the smaller residues is kept
    a floor has at least two values; a floor(x/q) of exactly two values has the smallest possible q
    several floors of one short axis become one floor, if their sum has the same values as one floor
    floor((g·a + b)/(g·q)) becomes floor((a + k)/q) if floor(b/g) = k on the whole box
    floor((a + floor(b/g))/q) becomes floor((g·a + b)/(g·q))
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from ir.diagnostics import Kind, fail
from ir.index.linear import ZERO, AxisExpr, FloorDiv, Term, constant, expr_order, linear, weighted_sum

__all__ = [
    "ZERO",
    "AxisExpr",
    "Box",
    "FloorDiv",
    "Term",
    "axis",
    "axis_names",
    "box_of",
    "common_divisors",
    "constant",
    "expr_order",
    "floordiv",
    "interval",
    "linear",
    "mod",
    "parse_expr",
    "simplify",
    "substitute",
    "weighted_sum",
    "without_floor",
]

Box: TypeAlias = "tuple[tuple[int, int], ...]"
"""For every axis its least and greatest value, both inclusive; never empty."""

_UNBOUNDED = (0, 2**62)
_CACHE = 1 << 17
_MANY_FLOORS = 4
"""An expression with more floors than this gets looser bounds, which take less time to compute."""
_SHORT = 64
"""The values of an axis of at most this many points may be enumerated."""


def axis_names(rank: int) -> list[str]:
    """The default names of axes: i0, i1, …"""
    return [f"i{position}" for position in range(rank)]


def box_of(sizes: Sequence[int]) -> Box:
    """The box 0 ≤ axis < size; every size is at least 1."""
    return tuple([(0, size - 1) for size in sizes])


@lru_cache(maxsize=4096)
def axis(position: int, box: Box) -> AxisExpr:
    """The axis as an expression; a constant if the axis has one value only."""
    low, high = box[position]
    return AxisExpr(low) if low == high else AxisExpr(0, ((position, 1),))


def interval(expr: AxisExpr, box: Box) -> tuple[int, int]:
    """Bounds (inclusive) of the values over the box: exact for affine expressions, else safe and mostly exact."""
    low = high = expr.const
    for term, c in expr.terms:
        if type(term) is not int:
            return _quasi_interval(expr, box)
        first, last = box[term]
        if c > 0:
            low += c * first
            high += c * last
        else:
            low += c * last
            high += c * first
    return low, high


@lru_cache(maxsize=_CACHE)
def substitute(expr: AxisExpr, replacements: tuple[AxisExpr, ...], box: Box) -> AxisExpr:
    """`expr` with axis k replaced by `replacements[k]`, which are expressions over `box`."""
    terms = expr.terms
    if len(terms) == 1 and expr.const == 0 and terms[0][1] == 1 and type(terms[0][0]) is int:
        return replacements[terms[0][0]]
    parts = []
    for term, c in terms:
        if isinstance(term, int):
            parts.append((replacements[term], c))
        else:
            parts.append((floordiv(substitute(term.expr, replacements, box), term.divisor, box), c))
    return weighted_sum(expr.const, parts)


def simplify(expr: AxisExpr, box: Box) -> AxisExpr:
    """The canonical form over `box` of an expression that was canonical over a larger one."""
    for term, _ in expr.terms:
        if not isinstance(term, int) or box[term][0] == box[term][1]:
            return substitute(expr, _all_axes(box), box)
    return expr  # affine, and no axis is constant


def mod(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr:
    """expr - divisor·floor(expr/divisor)."""
    return expr - floordiv(expr, divisor, box) * divisor


def coordinates(at: AxisExpr, sizes: Sequence[int], box: Box) -> list[AxisExpr]:
    """The coordinates of point number `at` in a row-major box of `sizes`. If `at` lies beyond the box, the first
    coordinate exceeds its size."""
    inner: list[AxisExpr] = []
    for size in reversed(sizes[1:]):
        inner.append(mod(at, size, box))
        at = floordiv(at, size, box)
    return [at, *reversed(inner)] if sizes else []


@lru_cache(maxsize=_CACHE)
def floordiv(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr:
    """floor(expr / divisor) in canonical form; divisor ≥ 1."""
    quotient = _floordiv(expr, divisor, box)
    return _as_one_floor(quotient, box) or quotient


def _floordiv(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr:
    while divisor > 1 and expr.terms:
        for g in _common_divisors(expr, divisor):
            quotient = without_floor(expr, g, box)
            if quotient is not None:
                expr, divisor = quotient, divisor // g
                break
        else:
            return (
                _merge_nested_floors(expr, divisor, box)
                or _with_least_divisor(expr, divisor, box)
                or _reduce_residues(expr, divisor, box)
            )
    return AxisExpr(expr.const // divisor, expr.terms)


def without_floor(expr: AxisExpr, g: int, box: Box) -> AxisExpr | None:
    """floor(expr / g) = a + k, where expr = g·a + b and floor(b/g) = k on the whole box; None if no such k is found.

    Every coefficient is split so that b has a short range: by the residue of least absolute value modulo g, or, for
    a floor, by the residue that completes a remainder, as in b = i - g·floor(i/g).
    """
    quotient, residue = _nearest_multiple(expr, g)
    low, high = interval(residue, box)
    return quotient.shift(low // g) if low // g == high // g else None


def common_divisors(numbers: Iterable[int]) -> list[int]:
    """The greatest common divisors > 1 of all subsets, greatest first."""
    divisors: set[int] = set()
    for number in numbers:
        divisors |= {math.gcd(number, g) for g in divisors}
        divisors.add(number)
    return sorted((g for g in divisors if g > 1), reverse=True)


def parse_expr(text: str, axis_names: Sequence[str], sizes: Sequence[int] | None = None) -> AxisExpr:
    """An index expression: `+ - *` by constants, `//` and `%` by positive constants, parentheses.

    The result is canonical over the box of `sizes` if given (every size ≥ 1), else for axes of any size.

    Raises:
        EqsatError: MalformedGraph, when `text` is not such an expression over `axis_names`.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        box = (_UNBOUNDED,) * len(axis_names) if sizes is None else box_of(sizes)
        return _expr_of_ast(tree, {name: position for position, name in enumerate(axis_names)}, box)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        fail(
            Kind.MALFORMED_GRAPH,
            "tiny",
            f"not an index expression: {text!r} ({error})",
            hint=f"+ - * // % by constants over the axes {', '.join(axis_names)}",
        )


def _expr_of_ast(node: ast.expr, axes: Mapping[str, int], box: Box) -> AxisExpr:
    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return AxisExpr(value)
        case ast.Name(id=name):
            if name not in axes:
                raise ValueError(f"unknown axis {name}")
            return axis(axes[name], box)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _expr_of_ast(operand, axes, box) * -1
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _expr_of_ast(operand, axes, box)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _expr_of_ast(left, axes, box), _expr_of_ast(right, axes, box), box)
    raise ValueError(f"unexpected {ast.unparse(node)}")


def _binary(op: ast.operator, left: AxisExpr, right: AxisExpr, box: Box) -> AxisExpr:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult() if not left.terms:
            return right * left.const
        case ast.Mult() if not right.terms:
            return left * right.const
        case ast.FloorDiv() | ast.Mod() if not right.terms and right.const > 0:
            return (floordiv if isinstance(op, ast.FloorDiv) else mod)(left, right.const, box)
    raise ValueError("only + -, * by a constant, // and % by a positive constant")


@lru_cache(maxsize=4096)
def _all_axes(box: Box) -> tuple[AxisExpr, ...]:
    return tuple(axis(position, box) for position in range(len(box)))


def _common_divisors(expr: AxisExpr, divisor: int) -> list[int]:
    return common_divisors([divisor, *{math.gcd(c, divisor) for _, c in expr.terms}])


def _as_one_floor(expr: AxisExpr, box: Box) -> AxisExpr | None:
    """An expression of one short axis i as a·i + b + d·floor((i + k)/q), if it has the same values; else None.

    Sums of floors, and floors of c·i, can happen to equal a single floor of i.
    """
    floors = [term for term, _ in expr.terms if isinstance(term, FloorDiv)]
    if not floors or (len(floors) == 1 and floors[0].expr.lone_axis is not None) or len(expr.axes) != 1:
        return None
    (position,) = expr.axes
    low, high = box[position]
    if high - low >= _SHORT:
        return None
    values: list[int] = [expr.eval((*(0,) * position, i)) for i in range(low, high + 1)]
    growth = [after - before for before, after in pairwise(values)]
    a, *others = sorted(set(growth), key=lambda slope: (-growth.count(slope), abs(slope), slope))
    i = axis(position, box)
    line = (i * a).shift(values[0] - a * low)
    if len(others) != 1:
        return None if others else line
    steps = [at for at, slope in enumerate(growth, low + 1) if slope != a]
    first = steps[0]
    q = steps[1] - first if len(steps) > 1 else max(first - low, high + 1 - first)
    if first - q > low or steps != list(range(first, high + 1, q)):
        return None
    return line + floordiv(i.shift(q - first), q, box) * (others[0] - a)


def _nearest_multiple(expr: AxisExpr, g: int) -> tuple[AxisExpr, AxisExpr]:
    """(a, b) with expr = g·a + b; b keeps the constant and small coefficients."""
    quotients: list[tuple[Term, int]] = []
    residues: list[tuple[Term, int]] = []
    for term, c in expr.terms:
        r = c % g
        if 2 * r > g:
            r -= g
        if isinstance(term, FloorDiv):
            completing = _bounding_coefficient(term, residues)
            if completing is not None and (c - completing) % g == 0:
                r = completing
        if r:
            residues.append((term, r))
        if c != r:
            quotients.append((term, (c - r) // g))
    return AxisExpr(0, tuple(quotients)), AxisExpr(expr.const, tuple(residues))


def _bounding_coefficient(floor: FloorDiv, terms: Sequence[tuple[Term, int]]) -> int | None:
    """The coefficient c that makes Σ terms + c·floor bounded along floor's first axis, if it is an integer."""
    first = min(floor.expr.axes)
    grows = floor.expr.slope(first)
    if not grows:
        return None
    c = -AxisExpr(0, tuple(terms)).slope(first) * floor.divisor / grows
    return int(c) if c.denominator == 1 else None


def _merge_nested_floors(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr | None:
    """floor((a + floor(b/g))/q) as floor((g·a + b)/(g·q)), if an inner floor has residue 1 or -1 modulo q."""
    floors = [(term, c) for term, c in expr.terms if isinstance(term, FloorDiv)]
    for floor, c in floors:
        if c % divisor == 1:
            rest = _drop_term(expr, floor) * floor.divisor + floor.expr
            outside = AxisExpr(0, ((floor, c // divisor),)) if c != 1 else ZERO
            return outside + floordiv(rest, floor.divisor * divisor, box)
    if any(c % divisor == divisor - 1 for _, c in floors):
        return floordiv((expr * -1).shift(divisor - 1), divisor, box) * -1
    return None


def _with_least_divisor(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr | None:
    """floor(expr/divisor) with the least divisor, if it has two values: expr = divisor·a + b, and b crosses `step`."""
    quotient, residue = _nearest_multiple(expr, divisor)
    low, high = interval(residue, box)
    if high // divisor - low // divisor != 1:
        return None
    step = high // divisor * divisor
    least = max(step - low, high + 1 - step)
    if least >= divisor:
        return None
    return quotient.shift(low // divisor) + floordiv(residue.shift(least - step), least, box)


def _reduce_residues(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr:
    """floor(expr/divisor) with residues in [0, divisor), mirrored if that makes them smaller."""
    inner = [(term, c % divisor) for term, c in expr.terms if c % divisor]
    mirrored = [(term, divisor - c) for term, c in inner]
    const, k = divmod(expr.const, divisor)
    outside = linear(const, [(term, c // divisor) for term, c in expr.terms])
    sign = 1
    if _residue_order(mirrored, divisor - 1 - k) < _residue_order(inner, k):
        outside += AxisExpr(0, tuple((term, 1) for term, _ in inner))
        sign, inner, k = -1, mirrored, divisor - 1 - k
    numerator = AxisExpr(k, tuple(inner))
    if numerator != expr:  # the new residues may allow another simplification
        return outside + floordiv(numerator, divisor, box) * sign
    return outside + AxisExpr(0, ((FloorDiv(numerator, divisor), sign),))


def _residue_order(inner: list[tuple[Term, int]], k: int) -> tuple[int, list[int], int]:
    return sum(c for _, c in inner), [-c for _, c in inner], k


@lru_cache(maxsize=_CACHE)
def _quasi_interval(expr: AxisExpr, box: Box) -> tuple[int, int]:
    """The tightest of several bounds. They differ in how the last floor F = floor(x/q) is removed: F is replaced by
    its own range, or by (x - r)/q with 0 ≤ r < q. A finer term T = m·F + r with 0 ≤ r < m may be removed before.
    """
    floor, d = expr.terms[-1]
    assert isinstance(floor, FloorDiv)
    low, high = _bounds_without_floor(AxisExpr(expr.const, expr.terms[:-1]), floor, d, box)
    if sum(not isinstance(term, int) for term, _ in expr.terms) > _MANY_FLOORS:
        return low, high
    for remainder, m, weight in _remainders(expr, floor):
        rest = expr - remainder * weight
        d = next((c for term, c in rest.terms if term == floor), 0)
        bounds = _bounds_without_floor(_drop_term(rest, floor), floor, d, box)
        first, last = _add_bounds(bounds, _scale((0, m - 1), weight))
        low, high = max(low, first), min(high, last)
    return low, high


def _bounds_without_floor(rest: AxisExpr, floor: FloorDiv, d: int, box: Box) -> tuple[int, int]:
    """Bounds of rest + d·floor: the tighter of those from the range of the floor and of its numerator."""
    x, q = floor.expr, floor.divisor
    first, last = interval(x, box)
    low, high = _add_bounds(interval(rest, box), _scale((first // q, last // q), d))
    if not rest.terms or not d:
        return low, high
    first, last = _add_bounds(interval(rest * q + x * d, box), _scale((0, q - 1), -d))
    return max(low, -(-first // q)), min(high, last // q)


def _remainders(expr: AxisExpr, floor: FloorDiv) -> Iterator[tuple[AxisExpr, int, int]]:
    """(r, m, w): r = T - m·floor has values in [0, m), and expr - w·r no longer contains the term of T."""
    x, q = floor.expr, floor.divisor
    itself = AxisExpr(0, ((floor, 1),))
    for term, w in expr.terms[:-1]:
        if isinstance(term, int):
            first, c = x.terms[0]
            if term == first and w % c == 0:
                yield x - itself * q, q, w // c
        elif q % term.divisor == 0:
            finer = x - term.expr
            if all(c % term.divisor == 0 for c in (finer.const, *(c for _, c in finer.terms))) and finer.is_affine:
                m = q // term.divisor
                parts = [(axis_, c // term.divisor) for axis_, c in finer.terms]
                yield linear(finer.const // term.divisor, [*parts, (term, 1), (floor, -m)]), m, w


def _add_bounds(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _scale(bounds: tuple[int, int], factor: int) -> tuple[int, int]:
    low, high = bounds[0] * factor, bounds[1] * factor
    return (low, high) if factor >= 0 else (high, low)


def _drop_term(expr: AxisExpr, term: Term) -> AxisExpr:
    return AxisExpr(expr.const, tuple(item for item in expr.terms if item[0] != term))
