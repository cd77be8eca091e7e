"""Row-major arrays: strides, and the number of an element."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ir.index.linear import AxisExpr, weighted_sum


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The stride of every axis, in elements, of a row-major array without gaps."""
    return tuple(itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1))[::-1][: len(shape)]


def flat(at: Iterable[AxisExpr], strides: Iterable[int]) -> AxisExpr:
    """The number of the element at the coordinates `at`: Σ coordinate · stride."""
    return weighted_sum(0, zip(at, strides, strict=True))
