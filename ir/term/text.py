"""The texts inside terms: types `fp32[4,8]`, sizes `[3,3]`, and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ir.dtype import DType, TensorType
from ir.uop.playback import convert

_CACHE = 1 << 16


def sizes_text(sizes: Sequence[int]) -> str:
    """`[3,3]`."""
    return f"[{','.join(map(str, sizes))}]"


@lru_cache(maxsize=_CACHE)
def parse_sizes(text: str) -> tuple[int, ...]:
    """The sizes in `[3,3]`."""
    return tuple(int(size) for size in text[1:-1].split(",") if size)


def type_text(type_: TensorType) -> str:
    """`fp32[4,8]`: the dtype and the sizes. Terms have no names of axes."""
    return f"{type_.dtype.name}{sizes_text(type_.shape)}"


@lru_cache(maxsize=_CACHE)
def parse_type(text: str) -> TensorType:
    """The type in `fp32[4,8]`, its axes unnamed."""
    element, bracket, sizes = text.partition("[")
    return TensorType.of(element, parse_sizes(bracket + sizes))


def number_text(value: Any, element: DType) -> str:
    """The number that `element` holds for `value`: `true`, `-3`, `0.1`, `-0.0`, `inf`, `nan`."""
    held = scalar(value, element)[()]
    if element.is_bool:
        return "true" if held else "false"
    return repr(float(held)) if element.is_float else str(int(held))


def parse_number(text: str) -> bool | int | float:
    """The inverse of `number_text`."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return float(text)


def parse_numbers(text: str) -> list[Fraction]:
    """The numbers in `4 -5 1/6`, without rounding."""
    return [Fraction(number) for number in text.split()]


def scalar(value: Any, element: DType) -> np.ndarray[Any, Any]:
    """`value` cast to a 0-d array of `element`: floats round, to nearest even."""
    with np.errstate(all="ignore"):
        return convert(np.asarray(value), element, False)
