"""The range of one axis in which a guarded read is never padded."""

from __future__ import annotations

from functools import lru_cache

from ir.index.expr import AxisExpr, box_of, interval, substitute
from ir.index.expr import axis as axis_expr
from ir.index.guard import Bound
from ir.index.map import AxisMap

_LONGEST_SEARCH = 4096
"""The longest axis, in points, along which a bound with a floor is tried point by point; a longer axis counts as
guarded everywhere."""


@lru_cache(maxsize=1 << 14)
def interior(view: AxisMap, axis: int) -> tuple[int, int]:
    """The longest half-open range of `axis` in which no bound over that axis fails, whatever the other axes are;
    bounds without the axis do not count. An empty range is (0, 0)."""
    low, high = 0, view.sizes[axis]
    for guard in view.guards:
        for bound in guard.bounds:
            if axis in bound.expr.axes:
                first, last = _within(bound, view.sizes, axis)
                low, high = max(low, first), min(high, last)
    return (low, high) if low < high else (0, 0)


def is_guarded(view: AxisMap, axis: int) -> bool:
    """Whether some bound of the map depends on `axis`."""
    return any(axis in bound.expr.axes for guard in view.guards for bound in guard.bounds)


def _within(bound: Bound, sizes: tuple[int, ...], axis: int) -> tuple[int, int]:
    parts = bound.expr.split(axis)
    if parts is None:
        return _search(bound, sizes, axis)
    c, rest = parts
    least, greatest = interval(rest, box_of(sizes))
    # lo ≤ c·x + rest ≤ hi - 1 for every rest in [least, greatest]
    low, high = bound.lo - least, bound.hi - 1 - greatest
    if c < 0:
        c, low, high = -c, -high, -low
    return -(-low // c), high // c + 1


def _search(bound: Bound, sizes: tuple[int, ...], axis: int) -> tuple[int, int]:
    """The longest run of points at which the bound holds; every point is tried, since the axis stands under a floor."""
    if sizes[axis] > _LONGEST_SEARCH:
        return 0, 0
    best = start = (0, 0)
    for x in range(sizes[axis]):
        low, high = interval(*_fix_axis(bound.expr, sizes, axis, x))
        start = (start[0], x + 1) if bound.lo <= low and high < bound.hi else (x + 1, x + 1)
        if start[1] - start[0] > best[1] - best[0]:
            best = start
    return best


def _fix_axis(
    expr: AxisExpr, sizes: tuple[int, ...], axis: int, value: int
) -> tuple[AxisExpr, tuple[tuple[int, int], ...]]:
    """The expression and its box where `axis` has this value."""
    box = tuple((value, value) if k == axis else bounds for k, bounds in enumerate(box_of(sizes)))
    return substitute(expr, tuple(axis_expr(k, box) for k in range(len(box))), box), box
