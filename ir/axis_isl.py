"""Index maps as isl objects, for the questions that a canonical form alone does not answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.axis_expr import AxisExpr
from ir.axis_map import AxisMap


def isl_expr(expr: AxisExpr) -> str:
    """The expression in isl's notation, over `i0, i1, …`."""
    parts = [str(expr.const)]
    for term, c in expr.terms:
        name = f"i{term}" if isinstance(term, int) else f"floor(({isl_expr(term.expr)})/{term.divisor})"
        parts.append(f"{c}*{name}")
    return " + ".join(parts)


def isl_read(view: AxisMap) -> Any:
    """The `islpy.Map` from the points where the map reads to the coordinates that it reads."""
    import islpy

    conditions = [f"0 <= i{k} < {size}" for k, size in enumerate(view.sizes)]
    for guard in view.guards:
        conditions += [f"{b.lo} <= {isl_expr(b.expr)} < {b.hi}" for b in guard.bounds]
    coordinates = ", ".join(map(isl_expr, view.exprs))
    return islpy.Map(f"{{ [{_axes(view.sizes)}] -> [{coordinates}] : {' and '.join(conditions) or '1 = 1'} }}")


def reads_once(view: AxisMap) -> bool:
    """Whether no element of the operand is read at two points of the domain."""
    return bool(isl_read(view).is_injective())


def exact_range(expr: AxisExpr, sizes: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest value over a domain that has points."""
    import islpy

    conditions = " and ".join(f"0 <= i{k} < {size}" for k, size in enumerate(sizes))
    values = islpy.Map(f"{{ [{_axes(sizes)}] -> [{isl_expr(expr)}] : {conditions} }}").range()
    return values.dim_min_val(0).to_python(), values.dim_max_val(0).to_python()


def _axes(sizes: Sequence[int]) -> str:
    return ", ".join(f"i{k}" for k in range(len(sizes)))
