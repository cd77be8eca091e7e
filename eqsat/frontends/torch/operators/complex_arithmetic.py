"""Arithmetic and elementary functions of complex tensors.

A real operand gets no imaginary parts of 0 before a product: as in Annex G of the C standard, ∞ (a + b i) is infinite.
torch's own product of ∞ + 0 i has NaN.
"""

from __future__ import annotations

import math
from typing import Any

from eqsat.frontends.complex_tensor import ComplexTensor, from_interleaved, from_polar, from_real
from eqsat.frontends.elementary import cosh, is_negative, sinh
from eqsat.frontends.torch.operator_table import LOWERINGS, complex_aten
from eqsat.frontends.torch.operators.reductions import Axes, variance_and_mean
from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.tensor import Tensor, constant, full, where
from ir.diagnostics import Kind, fail
from ir.dtype import DType, fp64

Operand = ComplexTensor | Tensor | complex
"""A complex or a real tensor, or a number."""


@complex_aten("complex")
def _from_parts(real: Tensor, imag: Tensor) -> ComplexTensor:
    return _broadcast(ComplexTensor(real, imag))


@complex_aten("polar")
def _from_polar(size: Tensor, angle: Tensor) -> ComplexTensor:
    return _broadcast(from_polar(size, angle))


@complex_aten("view_as_real", "view_as_real_copy")
def _as_real(x: ComplexTensor) -> Tensor:
    return x.interleaved()


@complex_aten("view_as_complex", "view_as_complex_copy")
def _as_complex(parts: Tensor) -> ComplexTensor:
    return from_interleaved(parts)


@complex_aten("neg", "_neg_view")
def _negative(x: ComplexTensor) -> ComplexTensor:
    return -x


@complex_aten("_conj", "_conj_physical", "conj_physical", "_conj_copy")
def _conjugate(x: ComplexTensor) -> ComplexTensor:
    return x.conjugate()


@complex_aten("add.Tensor", "add.Scalar")
def _add(x: Operand, y: Operand, alpha: complex = 1, *, result: DType) -> ComplexTensor:
    return _broadcast(_complex(x, result) + _scaled(y, alpha, result))


@complex_aten("sub.Tensor", "sub.Scalar")
def _subtract(x: Operand, y: Operand, alpha: complex = 1, *, result: DType) -> ComplexTensor:
    return _broadcast(_complex(x, result) - _scaled(y, alpha, result))


@complex_aten("mul.Tensor", "mul.Scalar")
def _multiply(x: Operand, y: Operand, *, result: DType) -> ComplexTensor:
    return _broadcast(_times(_in_type(x, result), _in_type(y, result)))


@complex_aten("div.Tensor", "div.Scalar", "true_divide.Tensor", "true_divide.Scalar")
def _divide(x: Operand, y: Operand, *, result: DType) -> ComplexTensor:
    divisor, dividend = _in_type(y, result), _complex(x, result)
    if isinstance(divisor, ComplexTensor):
        return _broadcast(dividend / divisor)
    return _broadcast(dividend.map(lambda part: part / divisor))


@complex_aten("reciprocal")
def _reciprocal(x: ComplexTensor) -> ComplexTensor:
    return from_real(full(x.shape, 1.0, x.dtype)) / x


@complex_aten("square")
def _square(x: ComplexTensor) -> ComplexTensor:
    return x * x


@complex_aten("pow.Tensor_Scalar")
def _power(x: ComplexTensor, exponent: complex) -> ComplexTensor:
    """Whole exponents are products of squares, and 0.5 is the root; other ones are refused."""
    if exponent == 0:
        return from_real(full(x.shape, 1.0, x.dtype))
    if exponent == 0.5:
        return _root(x)
    if exponent.imag == 0 and float(exponent.real).is_integer() and abs(exponent) <= _MOST_SQUARES:
        power = x.power(abs(int(exponent.real)))
        return power if exponent.real > 0 else _reciprocal(power)
    return fail(Kind.UNSUPPORTED_OP, STAGE, f"the exponent {exponent} of complex numbers is not supported")


_MOST_SQUARES = 64
"""The largest exponent whose power is a product of squares."""


@complex_aten("sqrt")
def _root(x: ComplexTensor) -> ComplexTensor:
    """The root with a real part of at least 0, by the root of the larger part, so that no difference cancels. Both
    parts are infinite where the imaginary part is."""
    infinite = abs(x.imag) == math.inf
    large = where(infinite, math.inf, ((abs(x) + abs(x.real)) * 0.5).sqrt())
    small = where(infinite, math.inf, where(large == 0, 0.0, abs(x.imag) / (large * 2.0)))
    to_the_right = x.real >= 0
    size = where(to_the_right, small, large)
    return ComplexTensor(where(to_the_right, large, small), where(is_negative(x.imag), -size, size))


@complex_aten("rsqrt")
def _reciprocal_root(x: ComplexTensor) -> ComplexTensor:
    return _reciprocal(_root(x))


@complex_aten("sin")
def _sine(x: ComplexTensor) -> ComplexTensor:
    """sin(a + b i) = sin a cosh b + i cos a sinh b"""
    return ComplexTensor(x.real.sin() * cosh(x.imag), x.real.cos() * sinh(x.imag))


@complex_aten("cos")
def _cosine(x: ComplexTensor) -> ComplexTensor:
    """cos(a + b i) = cos a cosh b - i sin a sinh b"""
    return ComplexTensor(x.real.cos() * cosh(x.imag), -(x.real.sin() * sinh(x.imag)))


@complex_aten("exp")
def _exponential(x: ComplexTensor) -> ComplexTensor:
    return x.exp()


@complex_aten("log")
def _logarithm(x: ComplexTensor) -> ComplexTensor:
    return x.log()


@complex_aten("sgn")
def _sign(x: ComplexTensor) -> ComplexTensor:
    return x.sign()


@complex_aten("abs")
def _size(x: ComplexTensor) -> Tensor:
    return abs(x)


@complex_aten("angle")
def _angle(x: ComplexTensor) -> Tensor:
    return x.angle()


@complex_aten("eq.Tensor", "eq.Scalar")
def _equal(x: Operand, y: Operand) -> Tensor:
    one, other = _complex(x, fp64), _complex(y, fp64)
    same: Tensor = (one.real == other.real) & (one.imag == other.imag)
    return same


@complex_aten("ne.Tensor", "ne.Scalar")
def _unequal(x: Operand, y: Operand) -> Tensor:
    return ~_equal(x, y)


@complex_aten("isnan")
def _is_nan(x: ComplexTensor) -> Tensor:
    unequal: Tensor = (x.real != x.real) | (x.imag != x.imag)
    return unequal


@complex_aten("isinf")
def _is_infinite(x: ComplexTensor) -> Tensor:
    infinite: Tensor = (abs(x.real) == math.inf) | (abs(x.imag) == math.inf)
    return infinite


@complex_aten("var.correction")
def _variance(x: ComplexTensor, dim: Axes, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """The sum of the variances of the parts."""
    real, imag = (variance_and_mean(part, dim, correction, keepdim)[0] for part in (x.real, x.imag))
    return real + imag


@complex_aten("std.correction")
def _deviation(x: ComplexTensor, dim: Axes, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return _variance(x, dim, correction=correction, keepdim=keepdim).sqrt()


@complex_aten("linalg_vector_norm")
def _norm(x: ComplexTensor, *arguments: Any, dtype: DType | None = None, result: DType) -> Tensor:
    norm: Tensor = LOWERINGS["linalg_vector_norm.default"](abs(x), *arguments, result=result)
    return norm


@complex_aten("mm", "bmm", "mv", "dot", "matmul")
def _product(x: ComplexTensor, y: ComplexTensor) -> ComplexTensor:
    multiply = LOWERINGS["matmul.default"]
    real = multiply(x.real, y.real) - multiply(x.imag, y.imag)
    return ComplexTensor(real, multiply(x.real, y.imag) + multiply(x.imag, y.real))


@complex_aten("vdot")
def _inner_product(x: ComplexTensor, y: ComplexTensor) -> ComplexTensor:
    return _product(x.conjugate(), y)


@complex_aten("addmm", "baddbmm", "addmv")
def _add_product(
    start: ComplexTensor, x: ComplexTensor, y: ComplexTensor, *, beta: complex = 1, alpha: complex = 1, result: DType
) -> ComplexTensor:
    """beta · start + alpha · x y. With beta = 0, NaN in `start` counts for nothing."""
    product = _scaled(_product(x, y), alpha, result)
    return product if beta == 0 else _scaled(start, beta, result) + product


def _times(x: ComplexTensor | Tensor, y: ComplexTensor | Tensor) -> ComplexTensor:
    """The product, of which one operand may be real."""
    if isinstance(x, ComplexTensor):
        return x * y if isinstance(y, ComplexTensor) else x.map(lambda part: part * y)
    return y.map(lambda part: x * part) if isinstance(y, ComplexTensor) else from_real(x * y)


def _scaled(x: Operand, factor: complex, element: DType) -> ComplexTensor:
    return _complex(x, element) if factor == 1 else _times(_complex(x, element), _in_type(factor, element))


def _complex(x: Operand, element: DType) -> ComplexTensor:
    """The operand with parts of this dtype."""
    converted = _in_type(x, element)
    return converted if isinstance(converted, ComplexTensor) else from_real(converted)


def _in_type(x: Operand, element: DType) -> ComplexTensor | Tensor:
    """The operand with elements, or parts, of this dtype. Numbers are tensors of rank 0."""
    if isinstance(x, ComplexTensor | Tensor):
        return x.cast(element)
    real = constant(x.real, element)
    return ComplexTensor(real, constant(x.imag, element)) if x.imag else real


def _broadcast(x: ComplexTensor) -> ComplexTensor:
    """Both parts in the shape to which they broadcast."""
    shape = broadcast_shape("a complex tensor", x.real.shape, x.imag.shape)
    return x.map(lambda part: part.expand(shape))
