"""Special functions for the frontends, in fp64, rounded to the dtype of the argument.

A smooth function of one argument on an interval is a Chebyshev interpolant of SciPy's function, whose coefficients are
computed when a program is built. Where a function is not smooth, it is written by such functions of other arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from eqsat.frontends.elementary import in_fp64, log1p, polynomial
from eqsat.tensor import Tensor, where

_DEGREE = 36
"""The degree of all interpolants: their error is below 1e-13 of the greatest value on the interval."""


@cache
def _coefficients(function: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> tuple[float, ...]:
    """The Chebyshev coefficients of a function on an interval, without the last ones that are too small to matter."""

    points = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
    values = function((points + 1) * (high - low) / 2 + low)
    coefficients = np.polynomial.chebyshev.chebfit(points, values, _DEGREE)
    matter = np.flatnonzero(abs(coefficients) > 1e-17 * abs(coefficients).max())
    return tuple(float(c) for c in coefficients[: matter[-1] + 1])


def interpolant(function: Callable[[np.ndarray], np.ndarray], low: float, high: float, x: Tensor) -> Tensor:
    """The function at x, which lies in the interval, by Clenshaw's recurrence; others are moved to its ends."""
    t = (x.maximum(low).minimum(high) - (low + high) / 2) * (2 / (high - low))
    first, *rest = _coefficients(function, low, high)
    one, two = t * 0.0, t * 0.0
    for c in reversed(rest):
        one, two = 2 * t * one - two + c, one
    return t * one - two + first


@in_fp64
def erfcx(x: Tensor) -> Tensor:
    """exp(x²) erfc(x)"""
    size = abs(x)
    scaled = interpolant(_erfcx_of_ratio, 0.0, 1.0, 4 / (size + 4)).maximum(0.0)
    return where(x < 0, 2 * (x * x).exp() - scaled, scaled)


@in_fp64
def erfc(x: Tensor) -> Tensor:
    """1 − erf(x), right to many digits for large x too."""
    size = abs(x)
    tail = interpolant(_erfcx_of_ratio, 0.0, 1.0, 4 / (size + 4)) * (-x * x).exp()
    return where(x < 0, 2 - tail, tail)


@in_fp64
def erfinv(x: Tensor) -> Tensor:
    """The number whose erf is x."""
    size = abs(x)
    middle = x * interpolant(_erfinv_of_square, 0.0, 0.5625, x * x)
    far = interpolant(_erfinv_of_tail, 1.0, 6.2, (-(1 - size).log()).sqrt())
    tail = where(size == 1, math.inf, where(size <= 1, far, math.nan))
    return where(size <= 0.75, middle, where(x < 0, -tail, tail))


@in_fp64
def ndtri(p: Tensor) -> Tensor:
    """The number below which a standard normal variable lies with probability p."""
    middle = math.sqrt(2) * erfinv(2 * p - 1)
    least = p.minimum(1 - p)
    root = (-2 * least.log()).sqrt()
    tail = root * interpolant(_ndtri_of_root, 0.02, 0.6, root.recip())
    far = where(least == 0, -math.inf, where(least > 0, tail, math.nan))
    return where(least > 0.2, middle, where(p < 0.5, far, -far))


@in_fp64
def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the probability that a standard normal variable lies below x."""
    low = (erfcx(x.minimum(0.0) * -math.sqrt(0.5)) * 0.5).log() - x * x * 0.5
    return where(x < -1, low, log1p(erfc(x * math.sqrt(0.5)) * -0.5))


@in_fp64
def lgamma(x: Tensor) -> Tensor:
    """ln |Γ(x)|: Lanczos' series with g = 7 and nine terms, and the reflection x → 1 − x below 1/2."""
    reflected = x < 0.5
    z = where(reflected, 1 - x, x) - 1
    total = z * 0.0 + _LANCZOS[0]
    for number, c in enumerate(_LANCZOS[1:], 1):
        total = total + c / (z + number)
    t = z + 7.5
    value = (z + 0.5) * t.log() - t + total.log() + 0.5 * math.log(2 * math.pi)
    value = where(z == math.inf, math.inf, value)
    sine = abs(((x - x.round()) * math.pi).sin())
    below = where(sine == 0, math.inf, math.log(math.pi) - sine.log() - value)
    return where(abs(x) == math.inf, math.inf, where(reflected, below, value))


@in_fp64
def digamma(x: Tensor) -> Tensor:
    """The derivative of ln Γ(x): an asymptotic series for x + 8, and the reflection x → 1 − x below 1/2."""
    reflected = x < 0.5
    z = where(reflected, 1 - x, x)
    steps = z.recip()
    for k in range(1, 8):
        steps = steps + (z + k).recip()
    y = z + 8
    square = (y * y).recip()
    series = square * polynomial(square, (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12))
    value = y.log() - 0.5 / y - series - steps
    turn = (x - x.round()) * math.pi
    below = value - math.pi * turn.cos() / turn.sin()
    whole = (x <= 0) & (x == x.floor())
    pole = where(x == 0, -x.recip(), math.nan)
    return where(whole, pole, where(reflected, below, where(x == math.inf, math.inf, value)))


@in_fp64
def zeta(s: Tensor, q: Tensor) -> Tensor:
    """Σ (k + q)^−s over k = 0, 1, …, by twelve terms and the Euler–Maclaurin formula; infinite for s = 1 and for whole
    q ≤ 0, NaN for s < 1, and for q < 0 if s is not whole."""
    total = (q**-s) * 1.0
    for k in range(1, _TERMS):
        total = total + (q + k) ** -s
    w = q + _TERMS
    power = w**-s
    total = total + power * w / (s - 1) + power * 0.5
    factor = s
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        power = power / w
        total = total + bernoulli * factor * power
        power = power / w
        factor = factor * (s + (2 * j - 1)) * (s + 2 * j)
    whole = q == q.floor()
    beyond = where((q <= 0) & whole, math.inf, where((q < 0) & (s != s.floor()), math.nan, total))
    return where(s == 1, math.inf, where(s < 1, math.nan, where(q == math.inf, 0.0, beyond)))


def polygamma(order: int, x: Tensor) -> Tensor:
    """The derivative of this order of digamma(x)."""
    if not order:
        return digamma(x)
    scale = float(math.factorial(order)) * (-1) ** (order + 1)
    wide = x.cast("fp64")
    value: Tensor = (scale * zeta(wide * 0.0 + float(order + 1), wide)).cast(x.dtype)
    return value


@in_fp64
def i0e(x: Tensor) -> Tensor:
    """exp(−|x|) times the modified Bessel function I₀(x)."""
    return _bessel(x, _i0e, _i0e_of_reciprocal)


@in_fp64
def i0(x: Tensor) -> Tensor:
    return _bessel(x, _i0e, _i0e_of_reciprocal) * abs(x).exp()


@in_fp64
def i1e(x: Tensor) -> Tensor:
    """exp(−|x|) times the modified Bessel function I₁(x)."""
    size = _bessel(x, _i1e, _i1e_of_reciprocal)
    return where(x < 0, -size, size)


@in_fp64
def i1(x: Tensor) -> Tensor:
    return i1e(x) * abs(x).exp()


def _bessel(x: Tensor, near: Callable[..., np.ndarray], far: Callable[..., np.ndarray]) -> Tensor:
    """A function of |x|: `near` up to 8, and `far` of 8 / |x|, over √|x|, beyond."""
    size = abs(x)
    beyond = interpolant(far, 0.0, 1.0, 8 / size.maximum(8.0)) * size.maximum(8.0).rsqrt()
    value = where(size <= 8, interpolant(near, 0.0, 8.0, size), beyond)
    return where(x != x, x, value)


def _erfcx_of_ratio(y: np.ndarray) -> np.ndarray:
    from scipy.special import erfcx as exact

    result: np.ndarray = exact(4 / np.maximum(y, 1e-300) - 4)
    return result


def _erfinv_of_square(square: np.ndarray) -> np.ndarray:
    from scipy.special import erfinv as exact

    root = np.sqrt(np.maximum(square, 1e-30))
    result: np.ndarray = exact(root) / root
    return result


def _erfinv_of_tail(w: np.ndarray) -> np.ndarray:
    from scipy.special import erfcinv as exact

    result: np.ndarray = exact(np.exp(-w * w))
    return result


def _ndtri_of_root(r: np.ndarray) -> np.ndarray:
    """ndtri(p) r for r = 1 / √(−2 ln p)."""
    from scipy.special import ndtri_exp as exact

    result: np.ndarray = exact(-0.5 / (r * r)) * r
    return result


def _i0e(x: np.ndarray) -> np.ndarray:
    from scipy.special import i0e as exact

    result: np.ndarray = exact(x)
    return result


def _i1e(x: np.ndarray) -> np.ndarray:
    from scipy.special import i1e as exact

    result: np.ndarray = exact(x)
    return result


def _i0e_of_reciprocal(t: np.ndarray) -> np.ndarray:
    return _scaled(_i0e, t)


def _i1e_of_reciprocal(t: np.ndarray) -> np.ndarray:
    return _scaled(_i1e, t)


def _scaled(function: Callable[[np.ndarray], np.ndarray], t: np.ndarray) -> np.ndarray:
    """function(x) √x for x = 8 / t."""
    x = 8 / np.maximum(t, 1e-9)
    result: np.ndarray = function(x) * np.sqrt(x)
    return result


_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
_TERMS = 12
_BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
)
"""Bernoulli numbers B₂ⱼ over (2j)!."""
