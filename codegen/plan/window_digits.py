"""The digits of a window over a padded image, and the share of its positions that lie inside the image.

A convolution 3 × 3 of dilation d reads x[y + d·r - d, z + d·s - d, c]: the digit r of its window belongs to the digit y
of the rows, and s to z.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ir.poly.core import OperandRead


class WindowDigit(NamedTuple):
    """A reduced digit whose terms lie inside the image where low ≤ row_step · row + step · digit < high. `row` is
    a digit of the rows, or None: then the row's number is 0."""

    digit: int
    step: int
    row: int | None
    row_step: int
    low: int
    high: int

    def is_inside(self, rows: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """The mask of the pairs of a row's number and a term's number that lie inside the image."""
        place = self.row_step * rows + self.step * terms
        inside: np.ndarray = (self.low <= place) & (place < self.high)
        return inside


def window_digits(read: OperandRead, rows: Collection[int], k: Collection[int]) -> tuple[WindowDigit, ...]:
    """The digits among `k` that a bound of the read's guards relates to one digit among `rows`, or to none. A digit
    with two bounds is there twice."""
    found = []
    for bound in (bound for guard in read.map.guards for bound in guard.bounds):
        if not bound.expr.is_affine:
            continue
        axes = sorted(bound.expr.axes)
        terms, moved = [axis for axis in axes if axis in k], [axis for axis in axes if axis in rows]
        if len(terms) == 1 and len(moved) <= 1 and len(axes) == len(terms) + len(moved):
            step, row = bound.expr.coeff(terms[0]) or 0, moved[0] if moved else None
            row_step = 0 if row is None else bound.expr.coeff(row) or 0
            found.append(WindowDigit(terms[0], step, row, row_step, bound.lo, bound.hi))
    return tuple(found)


def share_inside(window: WindowDigit, sizes: Sequence[int]) -> float:
    """The share of the window's positions that lie inside the image. sizes: of all digits."""
    rows = np.arange(1 if window.row is None else sizes[window.row])
    terms = np.arange(sizes[window.digit])
    return float(window.is_inside(rows[:, None], terms).mean()) if rows.size and terms.size else 1.0
