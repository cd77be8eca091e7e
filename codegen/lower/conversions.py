"""Conversions of numbers and values between dtypes, with rounding, for CPU and GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ir.dtype import DTYPES
from ir.kernel.nodes import Const, register_type


class Typed(Protocol):
    """A value of a dialect."""

    @property
    def dtype(self) -> str: ...


V = TypeVar("V", bound=Typed)


@dataclass(frozen=True)
class Conversions(Generic[V]):
    """The conversions of a dialect. call(function, arguments, dtype) makes its function calls."""

    call: Callable[[str, tuple[V, ...], str], V]

    def convert(self, value: V, source: str, dtype: str) -> V:
        """CAST of a value of dtype `source` to `dtype`."""
        if source == dtype:
            return value
        to = register_type(dtype)
        if source == "fp64" and dtype == "fp16":
            return self.round_value(self.call("odd_f32", (value,), "fp32"), dtype)
        return self.round_value(value if value.dtype == to else self.call("cast", (value,), to), dtype)

    def bitcast(self, value: V, source: str, dtype: str) -> V:
        """BITCAST of a value of dtype `source` to `dtype`, by way of the unsigned integer of their width."""
        if source == dtype:
            return value
        word = f"u{DTYPES[dtype].bits}"
        if DTYPES[source].is_float:
            bits = self.call(f"bits_{source.replace('fp', 'f')}", (value,), word)
        else:
            bits = self.convert(value, source, word)
        if DTYPES[dtype].is_float:
            return self.call(f"from_bits_{dtype.replace('fp', 'f')}", (bits,), register_type(dtype))
        return self.convert(bits, word, dtype)

    def round_value(self, value: V, dtype: str) -> V:
        """An fp32 register rounded to a 16-bit float; registers hold all other dtypes exactly."""
        if dtype not in ("fp16", "bf16"):
            return value
        return self.call(f"round_{dtype.replace('fp', 'f')}", (value,), "fp32")


def constant(number: bool | int | float | str, dtype: str) -> Const:
    """The number rounded to `dtype`, as a register."""
    array = np.asarray(float(number) if isinstance(number, str) else number)
    kind = DTYPES[dtype]
    with np.errstate(all="ignore"):
        exact = array.astype(np.float32).astype(kind.numpy) if dtype == "bf16" else array.astype(kind.numpy)
    if dtype == "bool":
        return Const(bool(exact), "bool")
    if not kind.is_float:
        return Const(int(exact), dtype)
    value = float(exact)
    return Const(value if np.isfinite(value) else str(value), register_type(dtype))
