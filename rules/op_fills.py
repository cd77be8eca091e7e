"""Which constants an op takes to a given constant, found by executing the op's meaning in the uop table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ir.dtype import DType, TensorType, dtype
from ir.term.text import scalar
from ir.uop.table import UOPS

Number: TypeAlias = "float | int | bool"
Operand: TypeAlias = "tuple[str, Number | None]"
"""The dtype of an operand and its value; None where a value is sought."""

_COMMON: tuple[Number, ...] = (0, 1, -1, -0.0, math.inf, -math.inf)


def preimage(op: str, result: str, fill: Number, operands: tuple[Operand, ...]) -> tuple[Number, ...] | None:
    """The operands' values for which `op` gives exactly `fill` (signs of zero and NaN included), or None.

    The fill itself is tried first, so that guards keep their fill where they can.
    """
    numbers = (fill, *(value for _, value in operands if value is not None))
    return _preimage(op, result, fill, operands, tuple(math.copysign(1, number) for number in numbers))


@lru_cache(maxsize=1 << 14)
def _preimage(
    op: str, result: str, fill: Number, operands: tuple[Operand, ...], signs: tuple[float, ...]
) -> tuple[Number, ...] | None:
    """`signs` are those of the numbers: 0 and −0 are one key."""
    out = dtype(result)
    wanted = scalar(fill, out)
    fill = wanted[()].item()
    choices = [_choices(fill, operands) if value is None else (value,) for _, value in operands]
    dtypes = [dtype(element) for element, _ in operands]
    for values in product(*choices):
        if not all(map(_holds, values, dtypes)):
            continue
        arrays = [scalar(value, element) for value, element in zip(values, dtypes, strict=True)]
        found = UOPS[op.upper()].apply(arrays, {"to": result}, TensorType(out, (), ()))
        if same_number(found, wanted):
            return values
    return None


def held(fill: Number, element: DType) -> Number:
    """The number that `element` has for `fill`."""
    number: Number = scalar(fill, element)[()].item()
    return number


def same_in(fill: Number, wide: DType, narrow: DType) -> bool:
    """Whether what `wide` has for `fill` is a number of `narrow` too."""
    return _holds(held(fill, wide), narrow)


def same_number(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Bit for bit, but any NaN is every other."""
    x, y = a[()].item(), b[()].item()
    if x != x or y != y:
        return bool(x != x and y != y)
    return bool(x == y and math.copysign(1, x) == math.copysign(1, y))


def _choices(fill: Number, operands: Sequence[Operand]) -> tuple[Number, ...]:
    """Constants worth trying: the fill, the identities of the ops, what differs from the fill by a known operand."""
    near: list[Number] = []
    for _, value in operands:
        if value is not None and math.isfinite(value) and math.isfinite(fill):
            near += [fill - value, fill + value, value - fill]
            near += [fill / value, fill * value] if value else []
    return tuple({repr(float(each)): each for each in (fill, *_COMMON, *near)}.values())


def _holds(value: Number, element: DType) -> bool:
    """Whether `element` holds exactly this number (NaN and infinities in floats only)."""
    found = held(value, element)
    return bool(found == value or (value != value and found != found))
