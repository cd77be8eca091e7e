"""Questions about maps that a canonical form alone does not answer, asked of isl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.axis_expr import AxisExpr, axis_names
from ir.axis_map import AxisMap
from ir.isl_text import access, box, expression


def isl_read(view: AxisMap) -> Any:
    """The `islpy.Map` from the points where the map reads to the coordinates that it reads."""
    import islpy

    return islpy.Map(access("", "", view, axis_names(len(view.sizes))))


def reads_once(view: AxisMap) -> bool:
    """Whether no element of the operand is read at two points of the domain."""
    return bool(isl_read(view).is_injective())


def exact_range(expr: AxisExpr, sizes: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest value over a domain that has points."""
    import islpy

    names = axis_names(len(sizes))
    conditions = " and ".join(box(sizes, names))
    values = islpy.Map(f"{{ [{', '.join(names)}] -> [{expression(expr, names)}] : {conditions} }}").range()
    return values.dim_min_val(0).to_python(), values.dim_max_val(0).to_python()
