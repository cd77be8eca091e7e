"""Casts of fp32 to bytes whose operand is held within bounds that bytes keep.

    cast(max(min(x, high), low))                          hold_u8(x, low, high)
    cast(max(min(round(x), high), low))                   nearest_u8(x, low, high, 0)
    cast(max(min(round(x) + zero, high), low))            nearest_u8(x, low - zero, high - zero, zero)

NaN, which the cast makes 0, the bounds, the rounding and the zero point then take one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ir.dtype import DTYPES
from ir.index.map import AxisMap
from ir.kernel.cpu.nodes import CpuCall, Value
from ir.kernel.nodes import Const
from ir.region.region import Number, Op, Operand

OpOf = Callable[[str], Op | None]
"""The op that computes a value where the value is read; None for values that are loaded."""
_MOST_ZERO = 1 << 16
"""The largest zero point that bounds are shifted by without rounding."""


class HeldBytes(NamedTuple):
    """An operand of fp32 within bounds, and the maps from the point of a cast to the point of the operand's op. zero:
    the integer that is added to the rounded operand before it is held; None if the operand is not rounded."""

    operand: Operand | Number
    views: Sequence[AxisMap]
    low: float
    high: float
    zero: int | None = None

    def call(self, value: Value, dtype: str) -> CpuCall:
        """The bytes of dtype `dtype` of the operand's `value`."""
        shift = self.zero or 0
        bounds = (Const(self.low - shift, "fp32"), Const(self.high - shift, "fp32"))
        if self.zero is None:
            return CpuCall(f"hold_{dtype}", (value, *bounds), dtype)
        return CpuCall(f"nearest_{dtype}", (value, *bounds, Const(self.zero, "i32")), dtype)


class _NumberStep(NamedTuple):
    """A value that an op takes beside a number, and the map from the point of its reader to the point of the op."""

    operand: Operand | Number
    number: float
    view: AxisMap


def held_bytes(op: Op, op_of: OpOf) -> HeldBytes | None:
    """The operand that a cast holds as bytes; None if the op is no such cast."""
    if op.kind != "cast" or op.dtype not in ("i8", "u8"):
        return None
    views, bounds = [], []
    (operand,) = op.inputs
    for fn in ("min", "max"):
        step = _step_with_number(operand, fn, op_of)
        if step is None:
            return None
        operand, bound, view = step
        views.append(view)
        bounds.append(bound)
    high, low = bounds
    element = DTYPES[op.dtype]
    if not element.lowest <= low <= 0 <= high <= element.highest:
        return None
    held = HeldBytes(operand, views, low, high)
    return _rounded(held, op_of) or (_rounded_and_shifted(held, op_of) if op.dtype == "u8" else None) or held


def _rounded(held: HeldBytes, op_of: OpOf, zero: int = 0) -> HeldBytes | None:
    """The operand before it was rounded; None if it was not."""
    inner = _inner(held.operand, "round", op_of)
    if inner is None:
        return None
    op, view = inner
    return held._replace(operand=op.inputs[0], views=[*held.views, view], zero=zero)


def _rounded_and_shifted(held: HeldBytes, op_of: OpOf) -> HeldBytes | None:
    """The operand before it was rounded and an integer, as a zero point, was added."""
    step = _step_with_number(held.operand, "add", op_of)
    if step is None or not step.number.is_integer() or abs(step.number) > _MOST_ZERO:
        return None
    return _rounded(held._replace(operand=step.operand, views=[*held.views, step.view]), op_of, int(step.number))


def _step_with_number(operand: Operand | Number, fn: str, op_of: OpOf) -> _NumberStep | None:
    """The op `fn` in fp32 of a value and a number that computes the operand; None if that is another op."""
    inner = _inner(operand, fn, op_of)
    if inner is None:
        return None
    op, view = inner
    value, number = op.inputs
    return _NumberStep(value, float(number.number), view) if isinstance(number, Number) else None


def _inner(operand: Operand | Number, fn: str, op_of: OpOf) -> tuple[Op, AxisMap] | None:
    """The elementwise op `fn` in fp32 that computes an operand, and the map of the operand's read."""
    if not isinstance(operand, Operand) or operand.map.guards:
        return None
    op = op_of(operand.value)
    is_wanted = op is not None and op.kind in ("ewise", "unary") and (op.fn, op.dtype) == (fn, "fp32")
    return (op, operand.map) if op is not None and is_wanted else None
