"""Numbers, conversions and roundings of lanes, and what a point depends on: the small change of lowering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.axis_expr import AxisExpr
from ir.cpu import Call, Const, Value, Within, register_type
from ir.dtype import DTYPES

Point = tuple[AxisExpr, ...]
Where = tuple[Within, ...]
"""Conditions that differ between lanes: the lanes in which a value is needed, and its loads are legal."""


def axes_of(point: Sequence[AxisExpr], where: Where = ()) -> frozenset[int]:
    """The variables that coordinates and conditions depend on."""
    used: frozenset[int] = frozenset()
    for expr in (*point, *(each.expr for each in where)):
        used |= expr.axes
    return used


def constant(number: bool | int | float | str, dtype: str) -> Const:
    """The number rounded to `dtype`, as a register."""
    array = np.asarray(float(number) if isinstance(number, str) else number)
    kind = DTYPES[dtype]
    with np.errstate(all="ignore"):
        exact = array.astype(np.float32).astype(kind.numpy) if dtype == "bf16" else array.astype(kind.numpy)
    if dtype == "bool":
        return Const(bool(exact), "bool")
    if not kind.is_float:
        return Const(int(exact), dtype)
    value = float(exact)
    return Const(value if np.isfinite(value) else str(value), register_type(dtype))


def converted(value: Value, source: str, dtype: str) -> Value:
    """CAST of a value of dtype `source` to `dtype`."""
    if source == dtype:
        return value
    to = register_type(dtype)
    if source == "fp64" and dtype == "fp16":
        return Call("round_f16", (Call("odd", (value,), "fp32"),), "fp32")
    cast = value if value.dtype == to else Call("cast", (value,), to)
    return rounded(cast, dtype)


def rounded(value: Value, dtype: str) -> Value:
    """fp32 lanes rounded to a 16-bit float; any other dtype is its register's own."""
    return Call(f"round_{dtype.replace('fp', 'f')}", (value,), "fp32") if dtype in ("fp16", "bf16") else value
