"""Points at which values of a region are needed: coordinates over a kernel's variables, and conditions on them."""

from __future__ import annotations

from collections.abc import Sequence

from ir.index.expr import AxisExpr
from ir.kernel.nodes import Within

Point = tuple[AxisExpr, ...]
Where = tuple[Within, ...]
"""Conditions under which a value is needed, and its loads are legal."""


def axes_of(point: Sequence[AxisExpr], where: Where = ()) -> frozenset[int]:
    """The variables that coordinates and conditions depend on."""
    used: frozenset[int] = frozenset()
    for expr in (*point, *(condition.expr for condition in where)):
        used |= expr.axes
    return used
