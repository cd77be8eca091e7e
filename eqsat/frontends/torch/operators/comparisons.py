"""Comparisons, logic, and choices by a condition."""

from __future__ import annotations

import math

from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import common_dtypes, in_dtype, pointwise
from eqsat.tensor import Tensor, where

_COMPARISONS = {
    "lt": "__lt__",
    "le": "__le__",
    "gt": "__gt__",
    "ge": "__ge__",
    "eq": "__eq__",
    "ne": "__ne__",
}


def _register(name: str, method: str) -> None:
    @pointwise(f"{name}.Tensor", f"{name}.Scalar", promotion="always_bool", operands=2)
    def compare(x: Tensor, y: Tensor) -> Tensor:
        compared: Tensor = getattr(Tensor, method)(x, y)
        return compared


for _name, _method in _COMPARISONS.items():
    _register(_name, _method)


@aten("logical_and")
def _logical_and(x: Tensor, y: Tensor) -> Tensor:
    return x.cast("bool") & y.cast("bool")


@aten("logical_or")
def _logical_or(x: Tensor, y: Tensor) -> Tensor:
    return x.cast("bool") | y.cast("bool")


@aten("logical_xor")
def _logical_xor(x: Tensor, y: Tensor) -> Tensor:
    return x.cast("bool") ^ y.cast("bool")


@aten("logical_not")
def _logical_not(x: Tensor) -> Tensor:
    return ~x.cast("bool")


@pointwise("isnan", promotion="always_bool")
def _is_nan(x: Tensor) -> Tensor:
    unequal: Tensor = x != x
    return unequal


@pointwise("isinf", promotion="always_bool")
def _is_infinite(x: Tensor) -> Tensor:
    infinite: Tensor = abs(x) == math.inf if x.dtype.is_float else x != x
    return infinite


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
    computation, result = common_dtypes("no_opmath", x, y)
    one, other = (in_dtype(value, computation) for value in (x, y))
    return where(condition, one, other).cast(result)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(x: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    filler = in_dtype(value, x.dtype)
    return where(mask, filler, x).cast(x.dtype)
