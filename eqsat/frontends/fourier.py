"""Discrete Fourier transforms as products with constant matrices of real numbers.

A transform of n = a b elements is transforms of a elements, and transforms of b elements whose matrices contain the
rotation between the two, with n (a + b) products of complex numbers instead of n² (Cooley and Tukey 1965). With
j = b j₁ + j₂, k = k₁ + a k₂ and w = exp(-2πi / n):

    X[k] = Σ_j₂ w^(j₂ (k₁ + a k₂)) Σ_j₁ w^(b j₁ k₁) x[j]

The parts of a complex number are neighbours along the last axis. So a product of complex numbers is a product of real
ones, with the block [[u, v], [-v, u]] for each number u + v i of the matrix.
"""

from __future__ import annotations

import math

import numpy as np

from eqsat.frontends.complex_tensor import ComplexTensor, from_interleaved
from eqsat.tensor import Tensor, constant
from ir.diagnostics import Kind, fail
from ir.frontend import STAGE

_DIRECT = 64
"""Elements of a transform that one product computes faster than two with smaller matrices."""
_MOST_ELEMENTS = 1 << 20
"""Elements of all matrices of the second product, for which the rotation is part of them."""
_LARGEST_PRIME = 4096
"""Elements of the longest transform by one product: its matrix of fp32 takes 256 MiB."""


def transform(
    x: Tensor | ComplexTensor, axis: int, n: int, *, count: int | None = None, is_inverse: bool = False
) -> ComplexTensor:
    """Σ_j x[j] exp(-2πi j k / n) along an axis, for k from 0 to `count` - 1 (None: n - 1).

    x: has at most n elements along the axis; zeros stand for those that lack.
    is_inverse: with exp(+2πi j k / n). The sum is not divided by n.

    Raises:
        EqsatError: UnsupportedOp for a number of elements with a prime factor above 4096.
    """
    result = _along_last(_columns(x, axis), n, n if count is None else count, 1 if is_inverse else -1)
    return from_interleaved(result).map(lambda part: part.swapaxes(axis, -1).cast(x.dtype))


def inverse_to_real(x: ComplexTensor, axis: int, n: int) -> Tensor:
    """The n real elements whose transform begins with x, times n: of a real tensor, X[n - k] is the conjugate of X[k].
    The imaginary parts of X[0], and of X[n / 2] for an even n, count for nothing.

    Raises:
        EqsatError: UnsupportedOp for a number of elements with a prime factor above 4096.
    """
    columns = _columns(x, axis)
    half = n // 2 + 1
    weights = np.full((half, 1), 2.0)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    real = _along_last(columns * constant(weights, columns.dtype), n, n, 1, parts=1)
    return real[..., 0].swapaxes(axis, -1).cast(x.dtype)


def _columns(x: Tensor | ComplexTensor, axis: int) -> Tensor:
    """The real tensor whose last two axes are `axis` and the parts of numbers, in the dtype of sums."""
    parts = x.interleaved() if isinstance(x, ComplexTensor) else x.unsqueeze(-1)
    return parts.cast(x.dtype.accumulator).swapaxes(axis % x.ndim, -2)


def _along_last(x: Tensor, n: int, count: int, sign: int, parts: int = 2) -> Tensor:
    """The first `count` elements [..., count, parts] of the transforms of x [..., n or less, 1 or 2 parts].

    parts: 1 for the real parts alone.
    """
    *rows, given, _ = x.shape
    outer = _factor(n)
    if outer > _LARGEST_PRIME:
        message = f"a Fourier transform of {n} elements: {outer} is a prime above {_LARGEST_PRIME}"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, hint="a length with small factors, such as a power of two")
    if outer == n:
        return _product(x, _roots(np.outer(np.arange(given), np.arange(count)), n, sign), parts)
    inner = n // outer
    height, width = -(-given // inner), -(-count // outer)
    first = _product(
        _as_rows(x, height, inner).swapaxes(-3, -2),
        _roots(np.outer(np.arange(height) * inner, np.arange(outer)), n, sign),
    )
    blocks = first.swapaxes(-3, -2)  # [..., outer, inner, 2]
    j, k = np.arange(inner), np.arange(outer)
    if 4 * n * inner <= _MOST_ELEMENTS:
        exponents = j[:, None] * (k[:, None, None] + outer * np.arange(width))
        second = _products(blocks, _roots(exponents, n, sign), parts)
    else:
        roots = _roots(np.outer(k, j), n, sign)
        rotation = ComplexTensor(constant(roots.real, x.dtype), constant(roots.imag, x.dtype))
        second = _along_last((from_interleaved(blocks) * rotation).interleaved(), inner, width, sign, parts)
    return second.swapaxes(-3, -2).reshape(*rows, width * outer, parts)[..., :count, :]


def _factor(n: int) -> int:
    """The number of elements of the first transforms: of the divisors of n, the largest one for which the two products
    are balanced, or else the least."""
    if n <= _DIRECT:
        return n
    divisors = [d for d in range(2, math.isqrt(n) + 1) if n % d == 0]
    return max((d for d in divisors if d <= _DIRECT), default=min(divisors, default=n))


def _as_rows(x: Tensor, height: int, width: int) -> Tensor:
    """The last axis but one as a matrix, filled up with zeros."""
    *rows, given, parts = x.shape
    missing = height * width - given
    padded = x.pad([*[(0, 0)] * len(rows), (0, missing), (0, 0)]) if missing else x
    return padded.reshape(*rows, height, width, parts)


def _product(x: Tensor, matrix: np.ndarray, parts: int = 2) -> Tensor:
    """The product of x [..., J, 1 or 2 parts] and a complex matrix [J, K], as [..., K, parts]."""
    given = x.shape[-1]
    real = constant(_real_matrix(matrix, given, parts), x.dtype)
    return (x.flatten(-2) @ real).reshape(*x.shape[:-2], matrix.shape[-1], parts)


def _products(x: Tensor, matrices: np.ndarray, parts: int) -> Tensor:
    """The products of x [..., L, J, 2] and L complex matrices [L, J, K], as [..., L, K, parts]."""
    *rows, blocks, length, _ = x.shape
    real = constant(_real_matrix(matrices, 2, parts), x.dtype)
    by_block = x.reshape(math.prod(rows), blocks, length * 2).swapaxes(0, 1)
    return (by_block @ real).swapaxes(0, 1).reshape(*rows, blocks, matrices.shape[-1], parts)


def _real_matrix(matrix: np.ndarray, given: int, parts: int) -> np.ndarray:
    """The real matrix [..., J · given, K · parts] of a complex one [..., J, K]."""
    u, v = matrix.real, matrix.imag
    blocks = np.stack([np.stack([u, v], -1), np.stack([-v, u], -1)], -2)  # [..., J, K, 2, 2]
    chosen = np.moveaxis(blocks[..., :given, :parts], -2, -3)
    *outer, rows, columns = matrix.shape
    return chosen.reshape(*outer, rows * given, columns * parts)


def _roots(exponents: np.ndarray, n: int, sign: int) -> np.ndarray:
    """exp(sign 2πi / n) to these powers."""
    roots: np.ndarray = np.exp(sign * 2j * np.pi * (exponents % n) / n)
    return roots
