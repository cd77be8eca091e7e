"""Comparisons, logic and choice on elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from eqsat import tensor
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.arithmetic import register_binary
from eqsat.tensor import Tensor

_COMPARISONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Equal": lambda a, b: a == b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
}
for _name, _function in _COMPARISONS.items():
    register_binary(_name, _function)


@operator("Where")
def _where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return tensor.where(condition, a, b)


@operator("IsNaN")
def _is_nan(x: Tensor) -> Tensor:
    differs: Tensor = x != x
    return differs


@operator("IsInf")
def _is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    none = tensor.full(x.shape, False, "bool")
    positive: Tensor = x == math.inf if detect_positive else none
    negative: Tensor = x == -math.inf if detect_negative else none
    either: Tensor = positive | negative
    return either


@operator("BitShift", since=11)
def _bit_shift(x: Tensor, by: Tensor, *, direction: Literal["LEFT", "RIGHT"]) -> Tensor:
    shifted: Tensor = x << by if direction == "LEFT" else x >> by
    return shifted
