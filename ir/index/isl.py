"""Questions about maps that the canonical form does not answer: isl answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.index.expr import AxisExpr, Box, axis_names
from ir.index.guard import Bound
from ir.index.isl_text import access, conditions, expression
from ir.index.map import AxisMap


def isl_read(view: AxisMap) -> Any:
    """The `islpy.Map` from the points where the map reads to the coordinates that it reads."""
    import islpy

    return islpy.Map(access("", "", view, axis_names(len(view.sizes))))


def reads_once(view: AxisMap) -> bool:
    """Whether no element of the operand is read at two points of the domain."""
    return bool(isl_read(view).is_injective())


def exact_range(expr: AxisExpr, ranges: Box, where: Sequence[Bound] = ()) -> tuple[int, int]:
    """The least and the greatest value over the points of a box where all bounds `where` hold; (1, 0) if there is no
    such point."""
    import islpy

    used = sorted(expr.axes.union(*(bound.expr.axes for bound in where)))
    names = axis_names(len(ranges))
    point = ", ".join(names[axis] for axis in used)
    inside = [f"{ranges[axis][0]} <= {names[axis]} <= {ranges[axis][1]}" for axis in used]
    text = " and ".join([*inside, *conditions(where, names)]) or "1 = 1"
    values = islpy.Map(f"{{ [{point}] -> [{expression(expr, names)}] : {text} }}").range()
    return (1, 0) if values.is_empty() else (values.dim_min_val(0).to_python(), values.dim_max_val(0).to_python())
