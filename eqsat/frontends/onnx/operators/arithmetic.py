"""Arithmetic on elements: ONNX's operators, which broadcast operands of one dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from eqsat import tensor
from eqsat.frontends.onnx.operands import malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.ops import divide_to_zero
from eqsat.tensor import Tensor
from ir.dtype import fp64


def power(base: Tensor, exponent: Tensor) -> Tensor:
    """base ^ exponent, in the dtype of `base`. An integer power of an integer wraps; a negative exponent gives 0, but 1
    or -1 for these bases."""
    if base.dtype.is_int and exponent.dtype.is_int:
        return _integer_power(base, exponent)
    if base.dtype.is_float and exponent.dtype.is_float and exponent.dtype.bits <= base.dtype.bits:
        return base ** exponent.cast(base.dtype)
    return (base.cast(fp64) ** exponent.cast(fp64)).cast(base.dtype)


def _integer_power(base: Tensor, exponent: Tensor) -> Tensor:
    """By repeated squaring: the product of base^(2^k) over the bits k of the exponent."""
    result, square = tensor.constant(1, base.dtype), base
    one = tensor.constant(1, exponent.dtype)
    bits = exponent.dtype.bits - exponent.dtype.is_signed
    for bit in range(bits):
        is_set = exponent // (1 << bit) % 2 == one
        result = tensor.where(is_set, result * square, result)
        square = square * square
    if not exponent.dtype.is_signed:
        return result
    odd = exponent % 2 == one
    unit = tensor.where(base == -1, tensor.where(odd, -1, 1).cast(base.dtype), 0) if base.dtype.is_signed else 0
    return tensor.where(exponent < 0, tensor.where(base == 1, 1, unit), result).cast(base.dtype)


def remainder_to_zero(a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the sign of a (C's fmod), floats by way of fp64."""
    if not a.dtype.is_float:
        return a - divide_to_zero(a, b) * b
    wide, by = a.cast(fp64), b.cast(fp64)
    quotient = wide / by
    whole = tensor.where(quotient < 0, quotient.ceil(), quotient.floor())
    return tensor.where(whole == 0, wide, wide - whole * by).cast(a.dtype)  # 0 · b is NaN for an infinite b


def remainder_to_floor(a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the sign of b (Python's %)."""
    if not a.dtype.is_float:
        return a % b
    rest = remainder_to_zero(a, b)
    return tensor.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": divide_to_zero,
    "Pow": power,
}
_VARIADIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Max": lambda a, b: a.maximum(b),
    "Min": lambda a, b: a.minimum(b),
    "Sum": lambda a, b: a + b,
}
_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": abs,
    "Neg": lambda x: -x,
    "Ceil": lambda x: x.ceil(),
    "Floor": lambda x: x.floor(),
    "Round": lambda x: x.round(),
    "Sqrt": lambda x: x.sqrt(),
    "Exp": lambda x: x.exp(),
    "Log": lambda x: x.log(),
    "Sin": lambda x: x.sin(),
    "Cos": lambda x: x.cos(),
    "Tanh": lambda x: x.tanh(),
    "Erf": lambda x: x.erf(),
    "Sigmoid": lambda x: x.sigmoid(),
    "Relu": lambda x: x.relu(),
    "Reciprocal": lambda x: x.recip(),
    "Not": lambda x: ~x,
    "BitwiseNot": lambda x: ~x,
}


def _register_unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    @operator(name)
    def lower(x: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
        return function(x)


def register_binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Registers an operator of two operands. Before opset 7 only the second one broadcasts, from `axis` on."""

    @operator(name)
    def lower_old(
        a: Tensor,
        b: Tensor,
        *,
        broadcast: bool | int = False,
        axis: int | None = None,
        consumed_inputs: list[int] | None = None,
    ) -> Tensor:
        if not broadcast and a.shape != b.shape:
            malformed(f"operands of the shapes {list(a.shape)} and {list(b.shape)} without the attribute broadcast")
        if axis is not None:
            b = b.reshape(*b.shape, *(1,) * (a.ndim - (axis % a.ndim) - b.ndim))
        return function(a, b)

    @operator(name, since=7)
    def lower(a: Tensor, b: Tensor) -> Tensor:
        return function(a, b)


def _register_variadic(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @operator(name)
    def lower(x: Tensor, *others: Tensor, consumed_inputs: list[int] | None = None) -> Tensor:
        return reduce(function, others, x)


for _name, _function in _UNARY.items():
    _register_unary(_name, _function)
for _name, _pair in _BINARY.items():
    register_binary(_name, _pair)
for _name, _pair in _VARIADIC.items():
    _register_variadic(_name, _pair)


@operator("Mean")
def _mean(x: Tensor, *others: Tensor, consumed_inputs: list[int] | None = None) -> Tensor:
    return reduce(lambda a, b: a + b, others, x) * (1 / (1 + len(others)))


@operator("Mod", since=10)
def _mod(a: Tensor, b: Tensor, *, fmod: bool | int = False) -> Tensor:
    """With the sign of b, or, with `fmod`, of a."""
    return remainder_to_zero(a, b) if fmod else remainder_to_floor(a, b)


@operator("Sign")
def _sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN stays."""
    zero, one = tensor.constant(0, x.dtype), tensor.constant(1, x.dtype)
    if not x.dtype.is_signed:
        return tensor.where(x > zero, one, zero)
    return tensor.where(x > zero, one, tensor.where(x < zero, -one, x))


@operator("Tan")
def _tan(x: Tensor) -> Tensor:
    return x.sin() / x.cos()


@operator("Sinh")
def _sinh(x: Tensor) -> Tensor:
    wide = x.cast(fp64)
    return ((wide.exp() - (-wide).exp()) * 0.5).cast(x.dtype)


@operator("Cosh")
def _cosh(x: Tensor) -> Tensor:
    wide = x.cast(fp64)
    return ((wide.exp() + (-wide).exp()) * 0.5).cast(x.dtype)


@operator("Asinh")
def _asinh(x: Tensor) -> Tensor:
    wide = x.cast(fp64)
    size = abs(wide)
    return (_sign(wide) * (size + (size * size + 1).sqrt()).log()).cast(x.dtype)


@operator("Acosh")
def _acosh(x: Tensor) -> Tensor:
    wide = x.cast(fp64)
    return (wide + (wide * wide - 1).sqrt()).log().cast(x.dtype)


@operator("Atanh")
def _atanh(x: Tensor) -> Tensor:
    wide = x.cast(fp64)
    return (((1 + wide) / (1 - wide)).log() * 0.5).cast(x.dtype)


@operator("Atan")
def _atan(x: Tensor) -> Tensor:
    return arctangent(x.cast(fp64)).cast(x.dtype)


@operator("Asin")
def _asin(x: Tensor) -> Tensor:
    wide = x.cast(fp64)
    return (2 * arctangent(wide / (1 + ((1 - wide) * (1 + wide)).sqrt()))).cast(x.dtype)


@operator("Acos")
def _acos(x: Tensor) -> Tensor:
    wide = x.cast(fp64)
    return (math.pi / 2 - 2 * arctangent(wide / (1 + ((1 - wide) * (1 + wide)).sqrt()))).cast(x.dtype)


_NUMERATOR = (-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1)
_NUMERATOR_END = (-1.228866684490136173410e2, -6.485021904942025371773e1)
_DENOMINATOR = (1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2)
_DENOMINATOR_END = (4.853903996359136964868e2, 1.945506571482613964425e2)


def arctangent(x: Tensor) -> Tensor:
    """atan x of an fp64 tensor: a rational function of the reduced argument (Cephes, atan.c)."""
    size = abs(x)
    large, middle = size > math.tan(3 * math.pi / 8), size > 0.66
    reduced = tensor.where(large, -1 / size, tensor.where(middle, (size - 1) / (size + 1), size))
    z = reduced * reduced
    fraction = _polynomial(z, (*_NUMERATOR, *_NUMERATOR_END)) / _polynomial(z, (*_DENOMINATOR, *_DENOMINATOR_END))
    angle = reduced * z * fraction + reduced
    turned = tensor.where(large, math.pi / 2 + angle, tensor.where(middle, math.pi / 4 + angle, angle))
    return tensor.where(x < 0, -turned, turned)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Horner's scheme; the highest power comes first."""
    return reduce(lambda total, c: total * x + c, coefficients[1:], tensor.constant(coefficients[0], x.dtype))
