"""Discrete Fourier transforms, as products with a matrix of cosines and sines. A complex number is a pair of numbers
along the last axis."""

from __future__ import annotations

import math

import numpy as np

from eqsat import tensor
from eqsat.frontends.onnx.operands import known_number, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor
from ir.dtype import fp64

_LONGEST = 4096
"""Elements of a transform, whose matrix has this number squared."""


@operator("DFT", since=17)
def _transform_attribute(
    x: Tensor, length: Tensor | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return transform(x, length, axis, bool(inverse), bool(onesided))


@operator("DFT", since=20)
def _transform(
    x: Tensor, length: Tensor | None = None, axis: Tensor | None = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    place = -2 if axis is None else int(known_number(axis, "the axis"))
    return transform(x, length, place, bool(inverse), bool(onesided))


def transform(x: Tensor, length: Tensor | None, axis: int, inverse: bool, onesided: bool) -> Tensor:
    """The transform of `length` elements along `axis`, cut or filled up with zeros.

    onesided: the first half of the frequencies; of an inverse transform, the input is one-sided and the result real.
    """
    place = axis_in(axis, x.shape)
    given = x.shape[place]
    usual = 2 * (given - 1) if inverse and onesided else given
    size = usual if length is None else int(known_number(length, "the length"))
    if size > _LONGEST:
        refuse(f"a Fourier transform of {size} elements, more than {_LONGEST},")
    if inverse and onesided:
        real, imaginary = _as_parts(_resize(x, place, size // 2 + 1))
        return multiply(real, imaginary, _inverse_real(size), place)[0].unsqueeze(-1)
    real, imaginary = _as_parts(_resize(x, place, size))
    places = np.arange(size // 2 + 1 if onesided else size)
    angles = 2 * math.pi * np.outer(np.arange(size), places) / max(size, 1)
    matrix = np.exp(1j * angles) / max(size, 1) if inverse else np.exp(-1j * angles)
    result = multiply(real, imaginary, matrix, place)
    return tensor.stack(result, -1)


def _inverse_real(size: int) -> np.ndarray:
    """Frequencies to elements: all but the first frequency, and the last of an even number, count twice."""
    half = size // 2 + 1
    counts = np.full(half, 2.0)
    counts[0] = 1
    if size % 2 == 0:
        counts[-1] = 1
    angles = 2 * math.pi * np.outer(np.arange(half), np.arange(size)) / max(size, 1)
    matrix: np.ndarray = np.exp(1j * angles) * counts[:, None] / max(size, 1)
    return matrix


def _resize(x: Tensor, axis: int, size: int) -> Tensor:
    before = (slice(None),) * axis
    kept = x[(*before, slice(0, size))]
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, size - kept.shape[axis])
    return kept.pad(widths)


def _as_parts(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The real and the imaginary part; the latter is absent if the last axis has one element."""
    return x[..., 0], x[..., 1] if x.shape[-1] == 2 else None


def multiply(real: Tensor, imaginary: Tensor | None, matrix: np.ndarray, axis: int) -> tuple[Tensor, Tensor]:
    """The product of a complex tensor along `axis` with a complex matrix, in fp64."""
    cosines, sines = (tensor.constant(part) for part in (matrix.real, matrix.imag))
    rows = real.swapaxes(axis, -1).cast(fp64)
    result = rows @ cosines, rows @ sines
    if imaginary is not None:
        columns = imaginary.swapaxes(axis, -1).cast(fp64)
        result = result[0] - columns @ sines, result[1] + columns @ cosines
    return result[0].swapaxes(axis, -1).cast(real.dtype), result[1].swapaxes(axis, -1).cast(real.dtype)


@operator("STFT", since=17)
def _short_transform(
    x: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None, *, onesided: int = 1
) -> Tensor:
    """Transforms of overlapping frames of x [batch, length, 1 or 2], weighted by the window."""
    hop = int(known_number(step, "the step"))
    size = int(known_number(length, "the length")) if length is not None else (window.size if window is not None else 0)
    frames = 1 + (x.shape[1] - size) // hop
    windows = Tensor("POOL", [x.swapaxes(1, 2)], {"kernel": (size,), "stride": (hop,), "dilation": (1,)})
    framed = windows.permute(0, 2, 3, 1)[:, :frames]
    weighted = framed if window is None else framed * window.reshape(size, 1)
    return transform(weighted, None, 2, False, bool(onesided))
