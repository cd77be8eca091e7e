"""The constants that an op takes to a given constant, found by computing the op as the uop table says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ir.dtype import DType, TensorType, dtype
from ir.term.text import scalar
from ir.uop.table import BITCASTS, FUNCTIONS

Number: TypeAlias = "float | int | bool"
Operand: TypeAlias = "tuple[str, Number | None]"
"""The dtype of an operand, and its value; None where the value is sought."""

_SCRAMBLING = frozenset(fn for fn in FUNCTIONS if fn.startswith("random"))
"""Functions whose results for simple constants are no simple constants: a search finds nothing."""
_COMMON: tuple[Number, ...] = (0, 1, -1, -0.0, math.inf, -math.inf)


def preimage(op: str, result: str, fill: Number, operands: tuple[Operand, ...]) -> tuple[Number, ...] | None:
    """Values of the operands for which `op` gives exactly `fill`, with the sign of a zero, or NaN; None if none is
    found.

    The fill itself is tried first, so that guards keep their fill where possible.
    """
    if op in _SCRAMBLING or (op in BITCASTS and fill != fill):  # the bits of a number may be those of another NaN
        return None
    numbers = (fill, *(value for _, value in operands if value is not None))
    return _preimage(op, result, fill, operands, tuple(math.copysign(1, number) for number in numbers))


@lru_cache(maxsize=1 << 14)
def _preimage(
    op: str, result: str, fill: Number, operands: tuple[Operand, ...], signs: tuple[float, ...]
) -> tuple[Number, ...] | None:
    """`signs` are the signs of all numbers: 0 and −0 are equal, and would share an entry of the cache."""
    out = dtype(result)
    wanted = scalar(fill, out)
    fill = wanted[()].item()
    choices = [_choices(fill, operands) if value is None else (value,) for _, value in operands]
    dtypes = [dtype(element) for element, _ in operands]
    for values in product(*choices):
        if not all(map(_holds, values, dtypes)):
            continue
        arrays = [scalar(value, element) for value, element in zip(values, dtypes, strict=True)]
        number = FUNCTIONS[op].apply(arrays, {"to": result}, TensorType(out, (), ()))
        if same_number(number, wanted):
            return values
    return None


def round_to(fill: Number, element: DType) -> Number:
    """`fill`, rounded to `element`."""
    number: Number = scalar(fill, element)[()].item()
    return number


def same_in(fill: Number, wide: DType, narrow: DType) -> bool:
    """Whether `fill`, rounded to `wide`, is a number of `narrow`."""
    return _holds(round_to(fill, wide), narrow)


def same_number(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two numbers have the same bits; all NaN count as the same."""
    x, y = a[()].item(), b[()].item()
    if x != x or y != y:
        return bool(x != x and y != y)
    return bool(x == y and math.copysign(1, x) == math.copysign(1, y))


def _choices(fill: Number, operands: Sequence[Operand]) -> tuple[Number, ...]:
    """Constants to try: the fill, identities of ops, and a common fill combined with a known operand.

    Another fill is combined with nothing: a value that equals its own shift by 1, as an index does, would be read with
    the fills 1, 2, 3 and so on without end.
    """
    near: list[Number] = []
    for _, value in operands:
        if value is not None and math.isfinite(value) and math.isfinite(fill) and fill in _COMMON:
            near += [fill - value, fill + value, value - fill]
            near += [fill / value, fill * value] if value else []
    return tuple({repr(float(number)): number for number in (fill, *_COMMON, *near)}.values())


def _holds(value: Number, element: DType) -> bool:
    """Whether this is a number of `element`; NaN and infinities are floats only."""
    rounded = round_to(value, element)
    return bool(rounded == value or (value != value and rounded != rounded))
