"""Elementary functions that are no uops, for the frontends. If nothing else is said, arguments are floats, and results
are computed in fp64 and rounded to the dtype of the argument, so that fp32 results are right to the last bit or two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce, wraps

from eqsat.tensor import Tensor, constant, where
from ir.dtype import DType, fp32, fp64

_SMALL = 1e-5
"""Below it, the first three terms of a power series are exact to 1e-15."""
_SQUARED = 1e150
"""Above it, a square may overflow, and is the same as the square plus or minus 1."""


Function = Callable[..., Tensor]


def in_fp64(function: Function) -> Function:
    """The function, which computes in fp64, for arguments of any float dtype; the result has the first one's dtype."""
    return _computed_in(function, lambda dtype: fp64)


def in_fp32_or_fp64(function: Function) -> Function:
    """As `in_fp64` of a function that computes in fp64 for fp64, and else in fp32."""
    return _computed_in(function, lambda dtype: fp64 if dtype == fp64 else fp32)


def _computed_in(function: Function, wide_of: Callable[[DType], DType]) -> Function:
    @wraps(function)
    def rounded(x: Tensor, *others: Tensor) -> Tensor:
        wide = wide_of(x.dtype)
        return function(x.cast(wide), *(other.cast(wide) for other in others)).cast(x.dtype)

    return rounded


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's scheme; the highest power comes first."""
    first = constant(coefficients[0], x.dtype).expand(x.shape)
    return reduce(lambda total, c: total * x + c, coefficients[1:], first)


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN stays. The dtype may be any but bool."""
    zero, one = constant(0, x.dtype), constant(1, x.dtype)
    if not x.dtype.is_signed:
        return where(x > zero, one, zero)
    return where(x > zero, one, where(x < zero, -one, x))


def is_negative(x: Tensor) -> Tensor:
    """Whether the sign bit of a float is set, as it is of -0 and of some NaN."""
    negative: Tensor = x.bitcast(f"i{x.dtype.bits}") < 0
    return negative


@in_fp64
def tan(x: Tensor) -> Tensor:
    return x.sin() / x.cos()


def log1p(x: Tensor) -> Tensor:
    """ln(1 + x) in the dtype of x, exact for small x: ln u · x / (u − 1) with u = 1 + x, whose roundings cancel
    (Kahan)."""
    u = x + 1
    return where(u == 1, x, where(u == math.inf, u, u.log() * (x / (u - 1))))


def expm1(x: Tensor) -> Tensor:
    """eˣ − 1 in the dtype of x; for small x as 2t / (1 − t) with t = tanh(x/2), which does not cancel."""
    half = (x * 0.5).tanh()
    return where(abs(x) < 1, 2 * half / (1 - half), x.exp() - 1)


def log_add(a: Tensor, b: Tensor) -> Tensor:
    """ln(eᵃ + eᵇ) in the dtype of a and b."""
    greatest = a.maximum(b)
    return where(abs(greatest) == math.inf, greatest, greatest + log1p((a.minimum(b) - greatest).exp()))


@in_fp64
def log10(x: Tensor) -> Tensor:
    return x.log() * (1 / math.log(10))


@in_fp64
def sinh(x: Tensor) -> Tensor:
    return where(abs(x) < _SMALL, polynomial(x, (1 / 6, 0.0, 1.0, 0.0)), (x.exp() - (-x).exp()) * 0.5)


@in_fp64
def cosh(x: Tensor) -> Tensor:
    return (x.exp() + (-x).exp()) * 0.5


@in_fp64
def asinh(x: Tensor) -> Tensor:
    size = abs(x)
    most = size.minimum(_SQUARED)
    large = sign(x) * where(size < _SQUARED, (most + (most * most + 1).sqrt()).log(), size.log() + math.log(2))
    return where(size < _SMALL, polynomial(x, (-1 / 6, 0.0, 1.0, 0.0)), large)


@in_fp64
def acosh(x: Tensor) -> Tensor:
    most = x.minimum(_SQUARED)
    size = where(x < _SQUARED, (most + (most * most - 1).sqrt()).log(), x.log() + math.log(2))
    return where(x < 1, math.nan, size)


@in_fp64
def atanh(x: Tensor) -> Tensor:
    return where(abs(x) < _SMALL, polynomial(x, (1 / 3, 0.0, 1.0, 0.0)), ((1 + x) / (1 - x)).log() * 0.5)


@in_fp64
def hypot(x: Tensor, y: Tensor) -> Tensor:
    """√(x² + y²), infinite where an argument is. The larger argument leaves the root, whose squares cannot overflow."""
    infinite = (abs(x) == math.inf) | (abs(y) == math.inf)
    large, small = abs(x).maximum(abs(y)), abs(x).minimum(abs(y))
    ratio = small / where(large == 0, 1.0, large)
    return where(infinite, math.inf, large * (1 + ratio * ratio).sqrt())


@in_fp64
def remainder_to_zero(a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the sign of a: C's fmod for fp32 arguments with |a / b| below 2²⁹. Beyond, and for fp64, the
    quotient and its product with b are rounded."""
    quotient = a / b
    whole = where(quotient < 0, quotient.ceil(), quotient.floor())
    return where(whole == 0, a, a - whole * b)  # 0 · b is NaN for an infinite b


def remainder_to_floor(a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the sign of b (Python's %)."""
    rest = remainder_to_zero(a, b)
    return where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def integer_power(base: Tensor, exponent: Tensor) -> Tensor:
    """base ^ exponent of integers, which wraps; a negative exponent gives 0, but 1 or -1 for these bases.

    By repeated squaring: the product of base^(2^k) over the bits k of the exponent.
    """
    result, square = constant(1, base.dtype), base
    one = constant(1, exponent.dtype)
    bits = exponent.dtype.bits - exponent.dtype.is_signed
    for bit in range(bits):
        is_set = exponent // (1 << bit) % 2 == one
        result = where(is_set, result * square, result)
        square = square * square
    if not exponent.dtype.is_signed:
        return result
    odd = exponent % 2 == one
    unit = where(base == -1, where(odd, -1, 1).cast(base.dtype), 0) if base.dtype.is_signed else 0
    return where(exponent < 0, where(base == 1, 1, unit), result).cast(base.dtype)
