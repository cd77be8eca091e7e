"""Fourier transforms along several axes."""

from __future__ import annotations

import math

from eqsat.frontends import fourier
from eqsat.frontends.complex_tensor import ComplexTensor
from eqsat.frontends.torch.operator_table import complex_aten
from eqsat.tensor import Tensor
from ir.dtype import DType


@complex_aten("_fft_c2c")
def _transform(x: ComplexTensor, axes: list[int], normalization: int, is_forward: bool) -> ComplexTensor:
    scale = _scale(normalization, [x.shape[axis] for axis in axes])
    return _scaled(_along(x, axes, is_inverse=not is_forward), scale)


@complex_aten("_fft_r2c")
def _transform_of_real(
    x: Tensor, axes: list[int], normalization: int, is_half: bool, *, result: DType
) -> ComplexTensor:
    """is_half: the first n // 2 + 1 elements along the last of the axes; the others are conjugates of them."""
    *others, last = axes
    n = x.shape[last]
    first = fourier.transform(x.cast(result), last, n, count=n // 2 + 1 if is_half else n)
    return _scaled(_along(first, others), _scale(normalization, [x.shape[axis] for axis in axes]))


@complex_aten("_fft_c2r")
def _inverse_to_real(x: ComplexTensor, axes: list[int], normalization: int, n: int) -> Tensor:
    """n: the number of elements of the result along the last of the axes."""
    *others, last = axes
    result = fourier.inverse_to_real(_along(x, others, is_inverse=True), last, n)
    return result * _scale(normalization, [*(x.shape[axis] for axis in others), n])


def _along(x: ComplexTensor, axes: list[int], is_inverse: bool = False) -> ComplexTensor:
    """The transforms along these axes, one after another."""
    for axis in axes:
        x = fourier.transform(x, axis, x.shape[axis], is_inverse=is_inverse)
    return x


def _scale(normalization: int, sizes: list[int]) -> float:
    """The factor of a transform of these sizes: 1, 1 / √n or 1 / n for torch's numbers 0, 1 and 2."""
    n = math.prod(sizes)
    return (1.0, 1 / math.sqrt(n), 1 / n)[normalization]


def _scaled(x: ComplexTensor, factor: float) -> ComplexTensor:
    return x if factor == 1 else x.map(lambda part: part * factor)
