"""Whole powers of lazy tensors."""

from __future__ import annotations

from typing import Any

from eqsat.lazy.argument_checks import STAGE
from ir.diagnostics import Kind, fail


def power(x: Any, exponent: int) -> Any:
    """x ** exponent: of integers by squaring; of floats by POW, except the square, as in NumPy.

    Raises:
        EqsatError: DtypeMismatch for integers to a negative power.
    """
    if x.dtype.is_float:
        return x * x if exponent == 2 else x._make("POW", [x, exponent])
    if exponent < 0:
        fail(Kind.DTYPE_MISMATCH, STAGE, "integers to a negative power", at=str(x.type), op="POW", hint="cast to float")
    if exponent == 0:
        return x._constant(1, x.dtype).expand(x.shape)
    half = power(x, exponent // 2) if exponent > 1 else x
    return x if exponent == 1 else half * half * x if exponent % 2 else half * half
