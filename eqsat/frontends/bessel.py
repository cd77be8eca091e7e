"""Bessel functions of the orders 0 and 1, in fp64, rounded to the dtype of the argument.

Up to 8 (2 for K), a function is an interpolant of x², plus a product with ln x where it has a pole. Beyond, J and Y are
√(2 / πx) times P cos χ − Q sin χ and P sin χ + Q cos χ with χ = x − π/4 (order 0) or x − 3π/4 (order 1). P and Q are
interpolants of 1 / x (Abramowitz and Stegun, 9.2.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.frontends.elementary import in_fp64
from eqsat.frontends.special import i0, i1, interpolant
from eqsat.tensor import Tensor, where

_NEAR, _NEAR_OF_K = 8.0, 2.0
"""The arguments from which on the functions are those of 1 / x."""
_LEAST = 1e-150
"""Stands for 0 where a function of an array has a pole there."""

Real = np.ndarray
Function = Callable[[Real], Real]


@in_fp64
def bessel_j0(x: Tensor) -> Tensor:
    size = abs(x)
    near = interpolant(_j0_of_square, 0.0, _NEAR**2, size * size)
    return where(size <= _NEAR, near, _wave(0, size, False))


@in_fp64
def bessel_j1(x: Tensor) -> Tensor:
    size = abs(x)
    near = x * interpolant(_j1_of_square, 0.0, _NEAR**2, size * size)
    far = _wave(1, size, False)
    return where(size <= _NEAR, near, where(x < 0, -far, far))


@in_fp64
def bessel_y0(x: Tensor) -> Tensor:
    """−∞ for 0, NaN below."""
    near = interpolant(_y0_of_square, 0.0, _NEAR**2, x * x) + 2 / math.pi * x.log() * bessel_j0(x.minimum(_NEAR))
    return where(x <= _NEAR, near, _wave(0, x, True))


@in_fp64
def bessel_y1(x: Tensor) -> Tensor:
    """−∞ for 0, NaN below."""
    regular = x * interpolant(_y1_of_square, 0.0, _NEAR**2, x * x)
    near = regular + 2 / math.pi * (x.log() * bessel_j1(x.minimum(_NEAR)) - x.recip())
    return where(x == 0, -math.inf, where(x <= _NEAR, near, _wave(1, x, True)))


@in_fp64
def bessel_k0(x: Tensor) -> Tensor:
    """The modified function of the second kind: ∞ for 0, NaN below."""
    return where(x <= _NEAR_OF_K, _k0_near(x), _scaled_far(_k0e_of_ratio, x) * (-x).exp())


@in_fp64
def bessel_k1(x: Tensor) -> Tensor:
    """∞ for 0, NaN below."""
    return where(x <= _NEAR_OF_K, _k1_near(x), _scaled_far(_k1e_of_ratio, x) * (-x).exp())


@in_fp64
def bessel_k0e(x: Tensor) -> Tensor:
    """exp(x) K₀(x)"""
    return where(x <= _NEAR_OF_K, _k0_near(x) * x.exp(), _scaled_far(_k0e_of_ratio, x))


@in_fp64
def bessel_k1e(x: Tensor) -> Tensor:
    """exp(x) K₁(x)"""
    return where(x <= _NEAR_OF_K, _k1_near(x) * x.exp(), _scaled_far(_k1e_of_ratio, x))


@in_fp64
def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin x / x; 1 for 0, and 0 for infinities."""
    return where(x == 0, 1.0, where(abs(x) == math.inf, 0.0, x.sin() / x))


def _wave(order: int, x: Tensor, is_second: bool) -> Tensor:
    """J, or Y if `is_second`, of this order beyond `_NEAR`."""
    size = x.maximum(_NEAR)
    ratio = _NEAR / size
    p, q = (interpolant(_AMPLITUDES[order, is_sine], 0.0, 1.0, ratio) for is_sine in (False, True))
    sine, cosine = size.sin(), size.cos()
    turned = (sine - cosine, sine + cosine) if order == 0 else (-sine - cosine, sine - cosine)
    sine, cosine = turned  # of χ, times √2
    wave = p * sine + q * cosine if is_second else p * cosine - q * sine
    return where(x != x, x, wave * (math.pi * size).rsqrt())


def _k0_near(x: Tensor) -> Tensor:
    regular = interpolant(_k0_of_square, 0.0, _NEAR_OF_K**2, x * x)
    return regular - (x * 0.5).log() * i0(x.minimum(_NEAR_OF_K))


def _k1_near(x: Tensor) -> Tensor:
    regular = x * interpolant(_k1_of_square, 0.0, _NEAR_OF_K**2, x * x)
    near = regular + (x * 0.5).log() * i1(x.minimum(_NEAR_OF_K)) + x.recip()
    return where(x == 0, math.inf, near)


def _scaled_far(function: Function, x: Tensor) -> Tensor:
    size = x.maximum(_NEAR_OF_K)
    return where(x != x, x, interpolant(function, 0.0, 1.0, _NEAR_OF_K / size) * size.rsqrt())


def _exact() -> Any:
    """SciPy's functions of arrays. To import them takes 0.3 s."""
    from scipy import special

    return special


def _of_square(function: Function) -> Function:
    """The function of x², for x > 0."""
    return lambda square: function(np.sqrt(np.maximum(square, _LEAST)))


def _of_ratio(function: Function, first: float) -> Function:
    """The function of first / x, for x > 0."""
    return lambda ratio: function(first / np.maximum(ratio, _LEAST))


def _amplitude(order: int, is_sine: bool) -> Function:
    """P, or Q if `is_sine`, as a function of x."""

    def amplitude(x: Real) -> Real:
        j, y = _exact().jv(order, x), _exact().yv(order, x)
        sine, cosine = np.sin(x - (order + 0.5) * np.pi / 2), np.cos(x - (order + 0.5) * np.pi / 2)
        result: Real = np.sqrt(np.pi / 2 * x) * (y * cosine - j * sine if is_sine else j * cosine + y * sine)
        return result

    return _of_ratio(amplitude, _NEAR)


_AMPLITUDES = {(order, is_sine): _amplitude(order, is_sine) for order in (0, 1) for is_sine in (False, True)}
_j0_of_square = _of_square(lambda x: _exact().j0(x))
_j1_of_square = _of_square(lambda x: _exact().j1(x) / x)
_y0_of_square = _of_square(lambda x: _exact().y0(x) - 2 / np.pi * np.log(x) * _exact().j0(x))
_y1_of_square = _of_square(lambda x: (_exact().y1(x) - 2 / np.pi * (np.log(x) * _exact().j1(x) - 1 / x)) / x)
_k0_of_square = _of_square(lambda x: _exact().k0(x) + np.log(x / 2) * _exact().i0(x))
_k1_of_square = _of_square(lambda x: (_exact().k1(x) - np.log(x / 2) * _exact().i1(x) - 1 / x) / x)
_k0e_of_ratio = _of_ratio(lambda x: _exact().k0e(x) * np.sqrt(x), _NEAR_OF_K)
_k1e_of_ratio = _of_ratio(lambda x: _exact().k1e(x) * np.sqrt(x), _NEAR_OF_K)
