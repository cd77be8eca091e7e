"""Arithmetic and elementary functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import Promotion, pointwise
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor, as_tensor, where
from ir.dtype import DType

_FUNCTIONS: dict[str, tuple[Promotion, Callable[[Tensor], Tensor]]] = {
    "abs": ("default", abs),
    "neg": ("default", lambda x: -x),
    "relu": ("default", lambda x: x.relu()),
    "ceil": ("default", lambda x: x.ceil()),
    "floor": ("default", lambda x: x.floor()),
    "round": ("default", lambda x: x.round()),
    "trunc": ("default", lambda x: _towards_zero(x)),
    "sign": ("default", lambda x: x if x.dtype.is_bool else where(x > 0, 1, where(x < 0, -1, x)).cast(x.dtype)),
    "square": ("bool_to_long", lambda x: x * x),
    "bitwise_not": ("no_opmath", lambda x: ~x),
    "exp": ("int_to_float", lambda x: x.exp()),
    "exp2": ("int_to_float", lambda x: x.exp2()),
    "log": ("int_to_float", lambda x: x.log()),
    "log2": ("int_to_float", lambda x: x.log2()),
    "sqrt": ("int_to_float", lambda x: x.sqrt()),
    "rsqrt": ("int_to_float", lambda x: x.rsqrt()),
    "reciprocal": ("int_to_float", lambda x: x.recip()),
    "sin": ("int_to_float", lambda x: x.sin()),
    "cos": ("int_to_float", lambda x: x.cos()),
    "tanh": ("int_to_float", lambda x: x.tanh()),
    "erf": ("int_to_float", lambda x: x.erf()),
    "sigmoid": ("int_to_float", lambda x: x.sigmoid()),
    "silu": ("default", nn.silu),
}
"""Functions of one tensor, with the rule for their dtypes."""

for _name, (_promotion, _function) in _FUNCTIONS.items():
    pointwise(_name, promotion=_promotion)(_function)


@pointwise("add.Tensor", "add.Scalar", operands=2)
def _add(x: Tensor, y: Tensor, alpha: Number = 1) -> Tensor:
    return x + (y if alpha == 1 else y * alpha)


@pointwise("sub.Tensor", "sub.Scalar", operands=2)
def _subtract(x: Tensor, y: Tensor, alpha: Number = 1) -> Tensor:
    return x - (y if alpha == 1 else y * alpha)


@pointwise("mul.Tensor", "mul.Scalar", operands=2)
def _multiply(x: Tensor, y: Tensor) -> Tensor:
    return x * y


@pointwise("div.Tensor", "div.Scalar", promotion="int_to_float", operands=2)
def _divide(x: Tensor, y: Tensor) -> Tensor:
    return x / y


@aten("div.Tensor_mode", "div.Scalar_mode")
def _divide_and_round(x: Tensor, y: Tensor | Number, rounding_mode: str | None) -> Tensor:
    divide = {None: _divide, "floor": _floor_divide, "trunc": _truncate_divide}[rounding_mode]
    return divide(x, y)  # type: ignore[arg-type]


@pointwise("floor_divide", "floor_divide.Scalar", operands=2)
def _floor_divide(x: Tensor, y: Tensor) -> Tensor:
    return x // y


@pointwise(operands=2)
def _truncate_divide(x: Tensor, y: Tensor) -> Tensor:
    """x / y without what is behind the point."""
    if x.dtype.is_float:
        return _towards_zero(x / y)
    below = x // y
    return where((below < 0) & (below * y != x), below + 1, below)


@pointwise("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", operands=2)
def _remainder(x: Tensor, y: Tensor) -> Tensor:
    """With the sign of y."""
    return x % y


@pointwise("fmod.Tensor", "fmod.Scalar", operands=2)
def _remainder_of_dividend(x: Tensor, y: Tensor) -> Tensor:
    """With the sign of x."""
    rest = abs(x) % abs(y)
    return where(x < 0, -rest, rest)


@pointwise("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", promotion="bool_to_long", operands=2)
def _power(x: Tensor, y: Tensor) -> Tensor:
    known = {0.5: Tensor.sqrt, -0.5: Tensor.rsqrt, -1.0: Tensor.recip, 1.0: lambda base: base}
    if isinstance(x, Tensor) and x.dtype.is_float and not isinstance(y, Tensor) and y in known:
        return known[y](x)
    return as_tensor(x) ** y


@pointwise("maximum", operands=2)
def _maximum(x: Tensor, y: Tensor) -> Tensor:
    return x.maximum(y)


@pointwise("minimum", operands=2)
def _minimum(x: Tensor, y: Tensor) -> Tensor:
    return x.minimum(y)


@pointwise("clamp", "clamp.Tensor", operands=3)
def _clamp(x: Tensor, least: Tensor | None, greatest: Tensor | None) -> Tensor:
    """Where `greatest` is below `least`, the result is `greatest`."""
    raised = x if least is None else x.maximum(least)
    return raised if greatest is None else raised.minimum(greatest)


@pointwise("log1p", promotion="int_to_float")
def _log_of_one_more(x: Tensor) -> Tensor:
    """log(1 + x), exact for small x: log(u) · x / (u − 1) with u = 1 + x, whose roundings cancel (Kahan)."""
    u = x + 1
    return where(u == 1, x, where(u == math.inf, u, u.log() * (x / (u - 1))))


@pointwise("expm1", promotion="int_to_float")
def _exp_less_one(x: Tensor) -> Tensor:
    """eˣ − 1; for small x as 2t / (1 − t) with t = tanh(x/2), which does not cancel."""
    half = (x * 0.5).tanh()
    return where(abs(x) < 1, 2 * half / (1 - half), x.exp() - 1)


@pointwise("leaky_relu")
def _leaky_relu(x: Tensor, slope: Number) -> Tensor:
    return where(x > 0, x, x * slope)


@pointwise("elu")
def _elu(x: Tensor, alpha: Number, scale: Number, input_scale: Number) -> Tensor:
    """scale · x for x > 0, else scale · alpha · (exp(input_scale · x) − 1)."""
    below = _exp_less_one(x.minimum(0) * input_scale)
    return where(x > 0, x * scale, below * (alpha * scale))


@pointwise("gelu")
def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return nn.gelu(x, approximate)


@pointwise("bitwise_and.Tensor", "bitwise_and.Scalar", promotion="no_opmath", operands=2)
def _and(x: Tensor, y: Tensor) -> Tensor:
    return x & y


@pointwise("bitwise_or.Tensor", "bitwise_or.Scalar", promotion="no_opmath", operands=2)
def _or(x: Tensor, y: Tensor) -> Tensor:
    return x | y


@pointwise("bitwise_xor.Tensor", "bitwise_xor.Scalar", promotion="no_opmath", operands=2)
def _exclusive_or(x: Tensor, y: Tensor) -> Tensor:
    return x ^ y


@aten("_to_copy", "prims.convert_element_type")
def _convert(x: Tensor, dtype: DType | None = None) -> Tensor:
    return x if dtype is None else x.cast(dtype)


def _towards_zero(x: Tensor) -> Tensor:
    return where(x < 0, x.ceil(), x.floor())
