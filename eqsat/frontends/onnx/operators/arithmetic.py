"""Arithmetic on elements: ONNX's operators, which broadcast operands of one dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from eqsat.frontends import angles, elementary
from eqsat.frontends.onnx.operands import malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.ops import divide_to_zero
from eqsat.tensor import Tensor
from ir.dtype import fp64


def power(base: Tensor, exponent: Tensor) -> Tensor:
    """base ^ exponent, in the dtype of `base`. An integer power of an integer wraps; a negative exponent gives 0, but 1
    or -1 for these bases."""
    if base.dtype.is_int and exponent.dtype.is_int:
        return elementary.integer_power(base, exponent)
    if base.dtype.is_float and exponent.dtype.is_float and exponent.dtype.bits <= base.dtype.bits:
        return base ** exponent.cast(base.dtype)
    return (base.cast(fp64) ** exponent.cast(fp64)).cast(base.dtype)


def _remainder_to_zero(a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the sign of a (C's fmod), floats by way of fp64."""
    return elementary.remainder_to_zero(a, b) if a.dtype.is_float else a - divide_to_zero(a, b) * b


def _remainder_to_floor(a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the sign of b (Python's %)."""
    return elementary.remainder_to_floor(a, b) if a.dtype.is_float else a % b


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
    "Sign": elementary.sign,
    "Tan": elementary.tan,
    "Sinh": elementary.sinh,
    "Cosh": elementary.cosh,
    "Asinh": elementary.asinh,
    "Acosh": elementary.acosh,
    "Atanh": elementary.atanh,
    "Atan": angles.atan,
    "Asin": angles.asin,
    "Acos": angles.acos,
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
    return _remainder_to_zero(a, b) if fmod else _remainder_to_floor(a, b)
