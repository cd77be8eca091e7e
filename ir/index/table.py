"""Expressions over a small box, from the values they take: what is one function there has one spelling.

A function of one axis t = 0, 1, …, n-1 is Σ_q c_q·floor(t/q) for exactly one choice of c_1, …, c_{n-1}: it grows by
Σ_{q | t} c_q on its way to t, and Möbius inversion over the divisors gives the coefficients. A function of several
axes that is a sum of functions of one axis is spelt so axis by axis (affine ones are the case q = 1); one that is
such a function of the row-major number of the point, t = Σ stride·axis, as that.
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

_POINTS = 4096
"""Boxes of more points are not tabulated."""
_TERMS = 4
"""A function of one axis that needs more terms keeps the spelling it has."""


@lru_cache(maxsize=1 << 16)
def respelt(expr: AxisExpr, box: Box) -> AxisExpr:
    """`expr`, or the spelling that its values on the box ask for, where it has several floors."""
    if expr.floors < 2:
        return expr
    used = sorted(expr.axes)
    extents = [box[position][1] - box[position][0] + 1 for position in used]
    if math.prod(extents) > _POINTS:
        return expr
    values = _values(expr, box, used)
    axes = [axis(position, box).shift(-box[position][0]) for position in used]
    return _separated(values, axes, box) or _linear(values, axes, box) or expr


def _values(expr: AxisExpr, box: Box, used: list[int]) -> NDArray[np.int64]:
    """One array axis for each axis that is used."""
    grid = np.ix_(*(np.arange(box[position][0], box[position][1] + 1) for position in used))
    point: list[NDArray[np.int64] | int] = [low for low, _ in box]
    for position, along in zip(used, grid, strict=True):
        point[position] = along
    values: NDArray[np.int64] = np.broadcast_to(expr.eval(point), np.broadcast_shapes(*(each.shape for each in grid)))
    return values


def _separated(values: NDArray[np.int64], axes: list[AxisExpr], box: Box) -> AxisExpr | None:
    """The sum of functions of one axis each that has these values, if there is a short one."""
    origin = (0,) * values.ndim
    total = np.full((1,) * values.ndim, values[origin])
    parts = [(AxisExpr(1), int(values[origin]))]
    for k, along in enumerate(axes):
        line = np.moveaxis(values, k, 0).reshape(values.shape[k], -1)[:, 0]
        total = total + (line - line[0]).reshape([-1 if each == k else 1 for each in range(values.ndim)])
        floors = _floors_of(line)
        if floors is None:
            return None
        parts += [(floordiv(along, divisor, box), c) for divisor, c in floors]
    return weighted_sum(0, parts) if np.array_equal(total, values) else None


def _linear(values: NDArray[np.int64], axes: list[AxisExpr], box: Box) -> AxisExpr | None:
    """The function of the point's row-major number that has these values, if there is a short one."""
    line = values.ravel()
    floors = _floors_of(line)
    if floors is None:
        return None
    number = flat(axes, row_major(values.shape))
    return weighted_sum(int(line[0]), [(floordiv(number, divisor, box), c) for divisor, c in floors])


def _floors_of(line: NDArray[np.int64]) -> list[tuple[int, int]] | None:
    """(q, c_q) with line[t] = line[0] + Σ c_q·floor(t/q), coefficients of 0 left out; None if they are many."""
    growth = np.diff(line, prepend=line[:1])
    found: list[tuple[int, int]] = []
    for divisor in range(1, len(line)):
        c = int(growth[divisor])
        if c:
            growth[divisor::divisor] -= c
            found.append((divisor, c))
            if len(found) > _TERMS:
                return None
    return found
