"""Arithmetic and elementary functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

from eqsat import nn
from eqsat.frontends import angles, elementary
from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import Promotion, in_dtype, pointwise
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor, as_tensor, where
from ir.dtype import DType

_FUNCTIONS: dict[str, tuple[Promotion, Callable[[Tensor], Tensor]]] = {
    "abs": ("default", abs),
    "neg": ("default", lambda x: -x),
    "_neg_view": ("default", lambda x: -x),
    "relu": ("default", lambda x: x.relu()),
    "ceil": ("default", lambda x: x.ceil()),
    "floor": ("default", lambda x: x.floor()),
    "round": ("default", lambda x: x.round()),
    "trunc": ("default", lambda x: _towards_zero(x)),
    "sign": ("default", lambda x: _sign(x)),
    "sgn": ("default", lambda x: _sign(x)),
    "positive": ("default", lambda x: x),
    "signbit": ("always_bool", lambda x: elementary.is_negative(x) if x.dtype.is_float else x < 0),
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
    "angle": ("int_to_float", lambda x: where(x != x, x, where(x < 0, math.pi, 0.0))),
    "tan": ("int_to_float", elementary.tan),
    "sinh": ("int_to_float", elementary.sinh),
    "cosh": ("int_to_float", elementary.cosh),
    "asin": ("int_to_float", angles.asin),
    "acos": ("int_to_float", angles.acos),
    "atan": ("int_to_float", angles.atan),
    "asinh": ("int_to_float", elementary.asinh),
    "acosh": ("int_to_float", elementary.acosh),
    "atanh": ("int_to_float", elementary.atanh),
    "log10": ("int_to_float", elementary.log10),
    "log1p": ("int_to_float", elementary.log1p),
    "expm1": ("int_to_float", elementary.expm1),
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


@pointwise("prims.fma.default", operands=3)
def _multiply_and_add(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """x · y + z; kernels round once, where the plan lets them."""
    return x * y + z


@pointwise("div.Tensor", "div.Scalar", "true_divide.Tensor", "true_divide.Scalar", promotion="int_to_float", operands=2)
def _divide(x: Tensor, y: Tensor) -> Tensor:
    return x / y


@aten("div.Tensor_mode", "div.Scalar_mode")
def _divide_and_round(x: Tensor, y: Tensor | Number, rounding_mode: str | None) -> Tensor:
    divide = {None: _divide, "floor": _floor_divide, "trunc": _truncate_divide}[rounding_mode]
    return divide(x, y)  # type: ignore[arg-type]


@pointwise("floor_divide", "floor_divide.Scalar", operands=2)
def _floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """⌊x / y⌋, from the quotient without its remainder, as Python does it; x / y where y is 0.

    Source: div_floor_floating of c10/util/generic_math.h.
    """
    if not _is_float(x, y):
        return as_tensor(x) // y
    one, other = _in_one_dtype(x, y)
    rest, ratio = elementary.remainder_to_zero(one, other), one / other
    whole = (one - rest) / other
    whole = where((rest != 0) & ((other < 0) != (rest < 0)), whole - 1, whole)
    near = whole.floor()
    near = where(whole - near > 0.5, near + 1, near)
    return where(other == 0, ratio, where(whole == 0, ratio * 0.0, near))


@pointwise(operands=2)
def _truncate_divide(x: Tensor, y: Tensor) -> Tensor:
    """x / y without its fraction."""
    if _is_float(x, y):
        one, other = _in_one_dtype(x, y)
        return _towards_zero(one / other)
    below = as_tensor(x) // y
    return where((below < 0) & (below * y != x), below + 1, below)


@pointwise("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", operands=2)
def _remainder(x: Tensor, y: Tensor) -> Tensor:
    """With the sign of y."""
    return elementary.remainder_to_floor(*_in_one_dtype(x, y)) if _is_float(x, y) else as_tensor(x) % y


@pointwise("fmod.Tensor", "fmod.Scalar", operands=2)
def _remainder_of_dividend(x: Tensor, y: Tensor) -> Tensor:
    """With the sign of x."""
    if _is_float(x, y):
        return elementary.remainder_to_zero(*_in_one_dtype(x, y))
    dividend, divisor = _in_one_dtype(x, y)
    rest = dividend % divisor
    return where((rest != 0) & ((rest < 0) != (dividend < 0)), rest - divisor, rest)


def _is_float(*operands: Tensor | Number) -> bool:
    """Whether the operands of a pointwise operator, which were cast to one dtype, are floats."""
    return any(isinstance(operand, Tensor) and operand.dtype.is_float for operand in operands)


def _in_one_dtype(x: Tensor | Number, y: Tensor | Number) -> tuple[Tensor, Tensor]:
    """Two operands, of which one may be a number, as tensors of one dtype."""
    element = next(operand.dtype for operand in (x, y) if isinstance(operand, Tensor))
    return in_dtype(x, element), in_dtype(y, element)


@pointwise("atan2", promotion="int_to_float", operands=2)
def _angle(y: Tensor, x: Tensor) -> Tensor:
    return angles.atan2(y, x)


@pointwise("hypot", operands=2)
def _hypotenuse(x: Tensor, y: Tensor) -> Tensor:
    return elementary.hypot(x, y)


@pointwise("copysign.Tensor", "copysign.Scalar", promotion="int_to_float", operands=2)
def _copy_sign(x: Tensor, y: Tensor) -> Tensor:
    size, by = _in_one_dtype(x, y)
    return where(elementary.is_negative(by), -abs(size), abs(size))


@pointwise("fmax", operands=2)
def _maximum_of_numbers(x: Tensor, y: Tensor) -> Tensor:
    """The greater one; the other one where one is NaN."""
    return where(x != x, y, where(y != y, x, x.maximum(y)))


@pointwise("fmin", operands=2)
def _minimum_of_numbers(x: Tensor, y: Tensor) -> Tensor:
    """The lesser one; the other one where one is NaN."""
    return where(x != x, y, where(y != y, x, x.minimum(y)))


@pointwise("ldexp.Tensor", promotion="int_to_float", operands=2)
def _scale_by_power(x: Tensor, exponent: Tensor) -> Tensor:
    """x · 2^exponent"""
    one, other = _in_one_dtype(x, exponent)
    return one * other.exp2()


@pointwise("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", promotion="int_to_float", operands=2)
def _product_with_log(x: Tensor, y: Tensor) -> Tensor:
    """x ln y; 0 where x is 0, if y is a number."""
    one, other = _in_one_dtype(x, y)
    return where(other != other, other, where(one == 0, 0.0, one * other.log()))


@pointwise(
    "bitwise_left_shift.Tensor",
    "bitwise_left_shift.Tensor_Scalar",
    "__lshift__.Scalar",
    "__lshift__.Tensor",
    promotion="no_opmath",
    operands=2,
)
def _shift_left(x: Tensor, y: Tensor) -> Tensor:
    return x << y


@pointwise(
    "bitwise_right_shift.Tensor",
    "bitwise_right_shift.Tensor_Scalar",
    "__rshift__.Scalar",
    "__rshift__.Tensor",
    promotion="no_opmath",
    operands=2,
)
def _shift_right(x: Tensor, y: Tensor) -> Tensor:
    return x >> y


@pointwise("hardtanh")
def _clip(x: Tensor, least: Number = -1, greatest: Number = 1) -> Tensor:
    return x.maximum(least).minimum(greatest)


@pointwise("round.decimals")
def _round_decimals(x: Tensor, *, decimals: int = 0) -> Tensor:
    """To so many digits behind the point; below 0, to powers of ten."""
    power = float(10 ** abs(decimals))
    return (x / power).round() * power if decimals < 0 else (x * power).round() / power


@pointwise("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", promotion="bool_to_long", operands=2)
def _power(x: Tensor, y: Tensor) -> Tensor:
    known = {0.5: Tensor.sqrt, -0.5: Tensor.rsqrt, -1.0: Tensor.recip, 1.0: lambda base: base}
    if isinstance(x, Tensor) and x.dtype.is_float and not isinstance(y, Tensor) and y in known:
        return known[y](x)
    base, exponent = x if isinstance(x, Tensor) else in_dtype(x, y.dtype), y
    if isinstance(exponent, Tensor) and not exponent.dtype.is_float:
        return elementary.integer_power(base.cast(exponent.dtype), exponent)
    return base**exponent


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


@pointwise("leaky_relu")
def _leaky_relu(x: Tensor, slope: Number) -> Tensor:
    return where(x > 0, x, x * slope)


@pointwise("elu")
def _elu(x: Tensor, alpha: Number, scale: Number, input_scale: Number) -> Tensor:
    """scale · x for x > 0, else scale · alpha · (exp(input_scale · x) − 1)."""
    below = elementary.expm1(x.minimum(0) * input_scale)
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


@aten("_to_copy", "prims.convert_element_type.default")
def _convert(x: Tensor, dtype: DType | None = None) -> Tensor:
    return x if dtype is None else x.cast(dtype)


@aten("view.dtype", "view_copy.dtype")
def _bits(x: Tensor, dtype: DType) -> Tensor:
    return x.bitcast(dtype)


def _sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; 0 for NaN."""
    if x.dtype.is_bool:
        return x
    positive: Tensor = (x > 0).cast(x.dtype)
    return positive - (x < 0).cast(x.dtype) if x.dtype.is_signed else positive


def _towards_zero(x: Tensor) -> Tensor:
    return where(x < 0, x.ceil(), x.floor())
