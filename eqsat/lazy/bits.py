"""The bits of lazy tensors, read as another dtype. Of another width in the order of bytes in memory, the lowest first:

    u32 [2]  0x44332211, 0x88776655   is   u8 [8]  0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88

An element is cut by shifts, and joined by a sum of shifted parts, which have no bit in common.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from eqsat.lazy.argument_checks import refuse
from eqsat.lazy.base import LazyTensor
from ir.diagnostics import Kind
from ir.dtype import DTYPES, DType, DTypeLike
from ir.dtype import dtype as as_dtype

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""


class Bits(LazyTensor):
    """Base class of `Tensor`."""

    __slots__ = ()

    def bitcast(self, to: DTypeLike) -> Self:
        """The bits read as another dtype, those of a NaN too: 1.0 of fp32 is 0x3f800000 of i32. A dtype of another
        width changes the size of the last axis, as torch's `view(dtype)` does: fp32 [..., n] is u8 [..., 4·n]. A bool
        is 0 or 1 of u8.

        Raises:
            EqsatError: DtypeMismatch if `to` is bool; if the widths differ, AxisSizeMismatch for a scalar, or for a
                last axis that is no whole number of elements.
        """
        wanted = as_dtype(to)
        if self.dtype.is_bool and not wanted.is_bool:
            return self.cast("u8").bitcast(wanted)
        if self.dtype.bits != wanted.bits and not wanted.is_bool:
            result: Self = (_split if self.dtype.bits > wanted.bits else _join)(self, wanted)
            return result
        return self._move("BITCAST", self.dtype == wanted, to=wanted.name, of=self.dtype.name)


def _split(x: Tensor, to: DType) -> Tensor:
    """x [..., n] as [..., n·k] of the dtype `to`, k times narrower."""
    _require_axis(x, to)
    whole, part = _word(x.dtype), _word(to)
    parts = (x.bitcast(whole).unsqueeze(-1) >> _shifts(whole, part)).cast(part)
    return parts.bitcast(to).reshape(*x.shape[:-1], x.shape[-1] * (whole.bits // part.bits))


def _join(x: Tensor, to: DType) -> Tensor:
    """x [..., n·k] as [..., n] of the dtype `to`, k times wider.

    Raises:
        EqsatError: AxisSizeMismatch where the last axis is no multiple of k.
    """
    _require_axis(x, to)
    whole, part = _word(to), _word(x.dtype)
    count = whole.bits // part.bits
    if x.shape[-1] % count:
        hint = f"a last axis that is a multiple of {count}"
        refuse(Kind.AXIS_SIZE_MISMATCH, "bitcast", f"{count} elements of {x.dtype} are one {to}", x.shape, hint=hint)
    parts = x.bitcast(part).reshape(*x.shape[:-1], x.shape[-1] // count, count)
    return (parts.cast(whole) << _shifts(whole, part)).sum(-1, dtype=whole).bitcast(to)


def _require_axis(x: Tensor, to: DType) -> None:
    if not x.ndim:
        message = f"a scalar of {x.dtype} is no {to}, which has another width"
        refuse(Kind.AXIS_SIZE_MISMATCH, "bitcast", message, x.shape, hint="reshape it to one axis first")


def _word(element: DType) -> DType:
    """The unsigned integer of this width."""
    return DTYPES[f"u{element.bits}"]


def _shifts(whole: DType, part: DType) -> np.ndarray:
    """The place of the lowest bit of each part."""
    return np.arange(0, whole.bits, part.bits, dtype=whole.numpy)
