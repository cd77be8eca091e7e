"""What a map is like: identity, injective, bijective, its inverse, its offsets and strides in the operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from ir.axis_expr import AxisExpr, FloorDiv, axis, box_of, floordiv, mod, weighted_sum
from ir.axis_map import AxisMap, axis_map, compose, identity
from ir.axis_moves import reshape, row_major

_CACHE = 1 << 16


def is_identity(view: AxisMap, shape: Sequence[int]) -> bool:
    """Whether the map reads an operand of this shape as it stands.

    The shape is needed: `[1] -> [0]` is the identity of an operand of one element and a cut of any other.
    """
    return view.sizes == tuple(shape) and view == identity(view.sizes)


@lru_cache(maxsize=_CACHE)
def is_injective(view: AxisMap) -> bool:
    """Whether no element of the operand is read twice, so that work moved through the map is not repeated.

    Exact: decided on the form where possible, else by isl. Points that hold a fill do not count.
    """
    if view.is_empty or view.fill is not None:
        return True
    unknown = {k for k, (low, high) in enumerate(view.interior) if low < high}
    missing = unknown - {position for expr in view.exprs for position in expr.axes}
    if missing and not view.guards:
        return False
    if not missing and _determined(view, unknown):
        return True
    from ir.axis_isl import reads_once

    return reads_once(view)


def _determined(view: AxisMap, unknown: set[int]) -> bool:
    """Whether the coordinates, taken one by one, tell every axis in `unknown`."""
    pending = [expr for expr in view.exprs if expr.terms]
    while unknown:
        left = [expr for expr in pending if not _tells(expr, unknown, view.interior)]
        if len(left) == len(pending):
            return False
        unknown = unknown - {k for expr in pending if expr not in left for k in expr.axes}
        pending = left
    return True


def _tells(expr: AxisExpr, unknown: set[int], box: Sequence[tuple[int, int]]) -> bool:
    """Whether `expr` and the known axes fix its unknown axes: each coefficient outweighs all smaller ones."""
    reach = 0
    weights = []
    for term, c in expr.terms:
        if isinstance(term, int):
            if term in unknown:
                weights.append((abs(c), term))
        elif term.expr.axes & unknown:
            return False
    for weight, position in sorted(weights):
        if weight <= reach:
            return False
        low, high = box[position]
        reach += weight * (high - low)
    return True


def is_bijection_onto(view: AxisMap, shape: Sequence[int]) -> bool:
    """Whether the map reads every element of an operand of this shape exactly once. Exact."""
    return not view.guards and math.prod(view.sizes) == math.prod(shape) and is_injective(view)


@lru_cache(maxsize=_CACHE)
def inverse(view: AxisMap, shape: tuple[int, ...]) -> AxisMap | None:
    """The map from an operand of this shape back to the domain: `compose(view, inverse)` is the identity.

    Found for permutations, reshapes, flips and their mixtures, where every axis is a row of digits in mixed
    radix and every digit has a place of its own in the linear offset; None for all else.
    """
    if view.guards or math.prod(view.sizes) != math.prod(shape):
        return None
    if view.is_empty:
        return axis_map(shape, identity(view.sizes).exprs)
    digits = _digits(view)
    if digits is None:
        return None
    split = reshape(view.sizes, digits)
    found = _affine_inverse(compose(view, split), shape)
    if found is None:
        return None
    candidate = compose(split, found)
    return candidate if is_identity(compose(view, candidate), shape) else None


def _digits(view: AxisMap) -> tuple[int, ...] | None:
    """The domain with each axis cut into the digits that floors take from it; None when they do not nest."""
    divisors: list[set[int]] = [{1, size} for size in view.sizes]
    for expr in view.exprs:
        for term, _ in expr.terms:
            if isinstance(term, FloorDiv):
                if len(term.expr.terms) != 1 or not isinstance(term.expr.terms[0][0], int):
                    return None
                divisors[term.expr.terms[0][0]].add(term.divisor)
    digits: list[int] = []
    for each in divisors:
        places = sorted(each, reverse=True)
        if any(a % b for a, b in pairwise(places)):
            return None
        digits += [a // b for a, b in pairwise(places)] or [1]
    return tuple(digits)


def _affine_inverse(view: AxisMap, shape: tuple[int, ...]) -> AxisMap | None:
    """The inverse of a map whose offset in the operand is affine: each axis is one digit of the offset."""
    place = offset(view, shape)
    if not place.is_affine:
        return None
    box = box_of(shape)
    flat = weighted_sum(0, [(axis(k, box), stride) for k, stride in enumerate(row_major(shape))])
    exprs = []
    for k, size in enumerate(view.sizes):
        weight = place.coeff(k) or 1
        digit = mod(floordiv(flat, abs(weight), box), size, box)
        exprs.append(digit if weight > 0 else (digit * -1).shift(size - 1))
    return axis_map(shape, exprs)


def offset(view: AxisMap, shape: Sequence[int]) -> AxisExpr:
    """The row-major offset, in elements, of what is read in an operand of this shape (where no guard fails)."""
    return weighted_sum(0, zip(view.exprs, row_major(shape), strict=True))


def strides(view: AxisMap, shape: Sequence[int]) -> tuple[int | None, ...]:
    """Per axis of the domain its step in elements of the operand; None where the step is not constant."""
    place = offset(view, shape)
    return tuple(place.coeff(k) for k in range(len(view.sizes)))
