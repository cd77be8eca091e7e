"""Quasi-affine integer expressions over the axes of a box, in a canonical form.

`x % q` is `x - q*floor(x/q)`. What is simple depends on the ranges of the axes, so every
operation that may meet a floor takes the `Box` it lives in. `floordiv` alone makes floors; it keeps this form:

    coefficients and constant under a floor lie in [0, q), so with axes ≥ 0 a floor never sees a negative number
    of floor(x/q) and -floor((q-1-x)/q), which differ by an affine part, the one with the smaller residues
    no floor with a single value; floor(x/q) of only two values has the smallest q
    several floors of one short axis are one floor where they step as regularly as one
    floor((g·a + b)/(g·q)) is floor((a + k)/q) wherever floor(b/g) = k on the whole box
    floor((a + floor(b/g))/q) is floor((g·a + b)/(g·q))
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
"""Per axis its least and greatest value, both inclusive; never empty."""

_UNBOUNDED = (0, 2**62)
_CACHE = 1 << 17
_MANY_FLOORS = 4
"""Beyond so many floors in one expression, bounds are sought with less effort."""
_SHORT = 64
"""Axes up to this size may have their values enumerated."""


def axis_names(rank: int) -> list[str]:
    """What axes are called where they have no other name: i0, i1, …"""
    return [f"i{position}" for position in range(rank)]


def box_of(sizes: Sequence[int]) -> Box:
    """The box 0 ≤ axis < size; every size is at least 1."""
    return tuple([(0, size - 1) for size in sizes])


@lru_cache(maxsize=4096)
def axis(position: int, box: Box) -> AxisExpr:
    """The axis itself, or its only value."""
    low, high = box[position]
    return AxisExpr(low) if low == high else AxisExpr(0, ((position, 1),))


def interval(expr: AxisExpr, box: Box) -> tuple[int, int]:
    """Bounds (inclusive) of the values over the box: exact when affine, else safe and mostly exact."""
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
    """The coordinates, in a row-major box of `sizes`, of its point number `at`; a number beyond the box goes on along
    the first axis."""
    found: list[AxisExpr] = []
    for size in reversed(sizes[1:]):
        found.append(mod(at, size, box))
        at = floordiv(at, size, box)
    return [at, *reversed(found)] if sizes else []


@lru_cache(maxsize=_CACHE)
def floordiv(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr:
    """floor(expr / divisor) in canonical form; divisor ≥ 1."""
    found = _floordiv(expr, divisor, box)
    return _regular(found, box) or found


def _floordiv(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr:
    while divisor > 1 and expr.terms:
        for g in _common_divisors(expr, divisor):
            quotient = without_floor(expr, g, box)
            if quotient is not None:
                expr, divisor = quotient, divisor // g
                break
        else:
            return _flattened(expr, divisor, box) or _two_valued(expr, divisor, box) or _reduced(expr, divisor, box)
    return AxisExpr(expr.const // divisor, expr.terms)


def without_floor(expr: AxisExpr, g: int, box: Box) -> AxisExpr | None:
    """floor(expr / g) = a + k, where expr = g·a + b and floor(b/g) = k on the whole box; None if none is found.

    The residue b of each coefficient modulo g is the one that keeps b short; a floor's may also be the one that
    completes a remainder, as in b = i - g·floor(i/g).
    """
    quotient, residue = _nearest_multiple(expr, g)
    low, high = interval(residue, box)
    return quotient.shift(low // g) if low // g == high // g else None


def common_divisors(numbers: Iterable[int]) -> list[int]:
    """The greatest common divisors > 1 of all subsets, greatest first."""
    found: set[int] = set()
    for number in numbers:
        found |= {math.gcd(number, g) for g in found}
        found.add(number)
    return sorted((g for g in found if g > 1), reverse=True)


def parse_expr(text: str, axis_names: Sequence[str], sizes: Sequence[int] | None = None) -> AxisExpr:
    """An index expression: `+ - *` by constants, `//` and `%` by positive constants, parentheses.

    Canonical over the box of `sizes` when they are given (each ≥ 1), else for axes of any size.

    Raises:
        EqsatError: MalformedGraph, when `text` is not such an expression over `axis_names`.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        box = (_UNBOUNDED,) * len(axis_names) if sizes is None else box_of(sizes)
        return _parsed(tree, {name: position for position, name in enumerate(axis_names)}, box)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        fail(
            Kind.MALFORMED_GRAPH,
            "tiny",
            f"not an index expression: {text!r} ({error})",
            hint=f"+ - * // % by constants over the axes {', '.join(axis_names)}",
        )


def _parsed(node: ast.expr, axes: Mapping[str, int], box: Box) -> AxisExpr:
    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return AxisExpr(value)
        case ast.Name(id=name):
            if name not in axes:
                raise ValueError(f"unknown axis {name}")
            return axis(axes[name], box)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _parsed(operand, axes, box) * -1
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _parsed(operand, axes, box)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _parsed(left, axes, box), _parsed(right, axes, box), box)
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


def _regular(expr: AxisExpr, box: Box) -> AxisExpr | None:
    """An expression of one short axis as a·i + b + d·floor((i + k)/q), where it steps that regularly.

    Several floors, or a floor of c·i, can say by chance what one floor of i says.
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
    a, *others = sorted(set(growth), key=lambda each: (-growth.count(each), abs(each), each))
    i = axis(position, box)
    line = (i * a).shift(values[0] - a * low)
    if len(others) != 1:
        return None if others else line
    steps = [at for at, each in enumerate(growth, low + 1) if each != a]
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
            completing = _completing(term, residues)
            if completing is not None and (c - completing) % g == 0:
                r = completing
        if r:
            residues.append((term, r))
        if c != r:
            quotients.append((term, (c - r) // g))
    return AxisExpr(0, tuple(quotients)), AxisExpr(expr.const, tuple(residues))


def _completing(floor: FloorDiv, terms: Sequence[tuple[Term, int]]) -> int | None:
    """The coefficient c that makes Σ terms + c·floor bounded along floor's first axis, if it is an integer."""
    first = min(floor.expr.axes)
    grows = floor.expr.slope(first)
    if not grows:
        return None
    c = -AxisExpr(0, tuple(terms)).slope(first) * floor.divisor / grows
    return int(c) if c.denominator == 1 else None


def _flattened(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr | None:
    """floor((a + floor(b/g))/q) as floor((g·a + b)/(g·q)), for a floor whose residue modulo q is 1 or -1."""
    floors = [(term, c) for term, c in expr.terms if isinstance(term, FloorDiv)]
    for floor, c in floors:
        if c % divisor == 1:
            rest = _without(expr, floor) * floor.divisor + floor.expr
            outside = AxisExpr(0, ((floor, c // divisor),)) if c != 1 else ZERO
            return outside + floordiv(rest, floor.divisor * divisor, box)
    if any(c % divisor == divisor - 1 for _, c in floors):
        return floordiv((expr * -1).shift(divisor - 1), divisor, box) * -1
    return None


def _two_valued(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr | None:
    """floor(expr/divisor) by its smallest divisor, when it steps once: at b = step, where expr = divisor·a + b."""
    quotient, residue = _nearest_multiple(expr, divisor)
    low, high = interval(residue, box)
    if high // divisor - low // divisor != 1:
        return None
    step = high // divisor * divisor
    least = max(step - low, high + 1 - step)
    if least >= divisor:
        return None
    return quotient.shift(low // divisor) + floordiv(residue.shift(least - step), least, box)


def _reduced(expr: AxisExpr, divisor: int, box: Box) -> AxisExpr:
    """floor(expr/divisor) with residues in [0, divisor), mirrored where that makes them smaller."""
    inner = [(term, c % divisor) for term, c in expr.terms if c % divisor]
    mirrored = [(term, divisor - c) for term, c in inner]
    const, k = divmod(expr.const, divisor)
    outside = linear(const, [(term, c // divisor) for term, c in expr.terms])
    sign = 1
    if _size(mirrored, divisor - 1 - k) < _size(inner, k):
        outside += AxisExpr(0, tuple((term, 1) for term, _ in inner))
        sign, inner, k = -1, mirrored, divisor - 1 - k
    numerator = AxisExpr(k, tuple(inner))
    if numerator != expr:  # other residues can open another simplification
        return outside + floordiv(numerator, divisor, box) * sign
    return outside + AxisExpr(0, ((FloorDiv(numerator, divisor), sign),))


def _size(inner: list[tuple[Term, int]], k: int) -> tuple[int, list[int], int]:
    return sum(c for _, c in inner), [-c for _, c in inner], k


@lru_cache(maxsize=_CACHE)
def _quasi_interval(expr: AxisExpr, box: Box) -> tuple[int, int]:
    """The meet of several bounds, each found by removing the last floor F = floor(x/q):

    F ranges on its own, or F = (x - r)/q with 0 ≤ r < q; before that, a finer term may go: T = m·F + r, 0 ≤ r < m.
    """
    floor, d = expr.terms[-1]
    assert isinstance(floor, FloorDiv)
    low, high = _without_last_floor(AxisExpr(expr.const, expr.terms[:-1]), floor, d, box)
    if sum(not isinstance(term, int) for term, _ in expr.terms) > _MANY_FLOORS:
        return low, high
    for remainder, m, weight in _remainders(expr, floor):
        rest = expr - remainder * weight
        d = next((c for term, c in rest.terms if term == floor), 0)
        bounds = _without_last_floor(_without(rest, floor), floor, d, box)
        first, last = _sum(bounds, _scaled((0, m - 1), weight))
        low, high = max(low, first), min(high, last)
    return low, high


def _without_last_floor(rest: AxisExpr, floor: FloorDiv, d: int, box: Box) -> tuple[int, int]:
    """Bounds of rest + d·floor, from the range of the floor and from that of its numerator."""
    x, q = floor.expr, floor.divisor
    first, last = interval(x, box)
    low, high = _sum(interval(rest, box), _scaled((first // q, last // q), d))
    if not rest.terms or not d:
        return low, high
    first, last = _sum(interval(rest * q + x * d, box), _scaled((0, q - 1), -d))
    return max(low, -(-first // q)), min(high, last // q)


def _remainders(expr: AxisExpr, floor: FloorDiv) -> Iterator[tuple[AxisExpr, int, int]]:
    """(r, m, w): expressions r = T - m·floor in [0, m), and the weight w that removes a term of T from `expr`."""
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
                parts = [(each, c // term.divisor) for each, c in finer.terms]
                yield linear(finer.const // term.divisor, [*parts, (term, 1), (floor, -m)]), m, w


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _scaled(bounds: tuple[int, int], factor: int) -> tuple[int, int]:
    low, high = bounds[0] * factor, bounds[1] * factor
    return (low, high) if factor >= 0 else (high, low)


def _without(expr: AxisExpr, term: Term) -> AxisExpr:
    return AxisExpr(expr.const, tuple(item for item in expr.terms if item[0] != term))
