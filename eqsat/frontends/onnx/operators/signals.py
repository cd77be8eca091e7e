"""Discrete Fourier transforms. A complex number is a pair of numbers along the last axis."""

from __future__ import annotations

from eqsat.frontends import fourier
from eqsat.frontends.complex_tensor import from_interleaved
from eqsat.frontends.onnx.operands import known_number
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor
from ir.dtype import fp64


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
    """The transform of `length` elements along `axis`, cut or filled up with zeros, in fp64.

    onesided: the first half of the frequencies; of an inverse transform, the input is one-sided and the result real.
    """
    place = axis_in(axis, x.shape)
    given = x.shape[place]
    usual = 2 * (given - 1) if inverse and onesided else given
    n = usual if length is None else int(known_number(length, "the length"))
    scale = 1 / max(n, 1) if inverse else 1.0
    if inverse and onesided:
        half = from_interleaved(_resize(x, place, n // 2 + 1).cast(fp64))
        return (fourier.inverse_to_real(half, place, n) * scale).unsqueeze(-1).cast(x.dtype)
    cut = _resize(x, place, min(n, given)).cast(fp64)
    parts = from_interleaved(cut) if x.shape[-1] == 2 else cut[..., 0]
    result = fourier.transform(parts, place, n, count=n // 2 + 1 if onesided else n, is_inverse=inverse)
    return result.map(lambda part: (part * scale).cast(x.dtype)).interleaved()


def _resize(x: Tensor, axis: int, size: int) -> Tensor:
    before = (slice(None),) * axis
    kept = x[(*before, slice(0, size))]
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, size - kept.shape[axis])
    return kept.pad(widths)


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
