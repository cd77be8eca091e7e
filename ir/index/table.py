"""Gives expressions with several floors one spelling, computed from their values over a small box.

A function of one axis t = 0, 1, …, n-1 is Σ_q c_q·floor(t/q) for exactly one choice of c_1, …, c_{n-1}: its step to t
is Σ_{q | t} c_q, and Möbius inversion over the divisors gives the coefficients. A sum of functions of single axes is
spelled axis by axis (q = 1 is the affine part). A function of the point's row-major number t = Σ stride·axis is
spelled as that.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ir.index.expr import AxisExpr, Box, axis, floordiv, weighted_sum
from ir.index.strides import flat, row_major

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_POINTS = 4096
"""Boxes of more points keep the spelling that they have: their values are not tabulated."""
_MAX_TERMS = 4
"""A function that needs more terms per axis keeps the spelling that it has."""


@lru_cache(maxsize=1 << 16)
def respell(expr: AxisExpr, box: Box) -> AxisExpr:
    """`expr`, respelled by its values on the box if it has several floors and a short spelling exists."""
    if expr.floors < 2:
        return expr
    used = sorted(expr.axes)
    extents = [box[position][1] - box[position][0] + 1 for position in used]
    if math.prod(extents) > _MAX_POINTS:
        return expr
    values = _values(expr, box, used)
    axes = [axis(position, box).shift(-box[position][0]) for position in used]
    return _as_sum_over_axes(values, axes, box) or _as_function_of_number(values, axes, box) or expr


def _values(expr: AxisExpr, box: Box, used: list[int]) -> NDArray[np.int64]:
    """The values of `expr`, an array with one axis per axis in `used`."""
    grid = np.ix_(*(np.arange(box[position][0], box[position][1] + 1) for position in used))
    point: list[NDArray[np.int64] | int] = [low for low, _ in box]
    for position, along in zip(used, grid, strict=True):
        point[position] = along
    values: NDArray[np.int64] = np.broadcast_to(expr.eval(point), np.broadcast_shapes(*(along.shape for along in grid)))
    return values


def _as_sum_over_axes(values: NDArray[np.int64], axes: list[AxisExpr], box: Box) -> AxisExpr | None:
    """The sum of functions of one axis that has these values, if there is a short one."""
    origin = (0,) * values.ndim
    total = np.full((1,) * values.ndim, values[origin])
    parts = [(AxisExpr(1), int(values[origin]))]
    for k, along in enumerate(axes):
        line = np.moveaxis(values, k, 0).reshape(values.shape[k], -1)[:, 0]
        total = total + (line - line[0]).reshape([-1 if position == k else 1 for position in range(values.ndim)])
        floors = _floor_coefficients(line)
        if floors is None:
            return None
        parts += [(floordiv(along, divisor, box), c) for divisor, c in floors]
    return weighted_sum(0, parts) if np.array_equal(total, values) else None


def _as_function_of_number(values: NDArray[np.int64], axes: list[AxisExpr], box: Box) -> AxisExpr | None:
    """The function of the point's row-major number that has these values, if there is a short one."""
    line = values.ravel()
    floors = _floor_coefficients(line)
    if floors is None:
        return None
    number = flat(axes, row_major(values.shape))
    return weighted_sum(int(line[0]), [(floordiv(number, divisor, box), c) for divisor, c in floors])


def _floor_coefficients(line: NDArray[np.int64]) -> list[tuple[int, int]] | None:
    """(q, c_q) with line[t] = line[0] + Σ c_q·floor(t/q) and c_q ≠ 0; None if there are more than _MAX_TERMS."""
    growth = np.diff(line, prepend=line[:1])
    coefficients: list[tuple[int, int]] = []
    for divisor in range(1, len(line)):
        c = int(growth[divisor])
        if c:
            growth[divisor::divisor] -= c
            coefficients.append((divisor, c))
            if len(coefficients) > _MAX_TERMS:
                return None
    return coefficients
