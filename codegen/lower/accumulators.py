"""What terms are accumulated in, and by which function."""

from __future__ import annotations

from ir.dtype import DTYPES, dtype, promote

_FUNCTION = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


def accumulator(source: str, result: str) -> str:
    """The dtype in which values of `source` are reduced to `result`."""
    if not DTYPES[result].is_float:
        return result
    wider = promote(dtype(source).accumulator, dtype(result).accumulator)
    return (wider or dtype(result).accumulator).name


def joining(fn: str, kind: str) -> str:
    """The elementwise function that joins two terms of `fn` in an accumulator of dtype `kind`."""
    return {"sum": "max", "prod": "min"}.get(fn, fn) if kind == "bool" else _FUNCTION[fn]
