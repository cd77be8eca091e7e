"""The accumulators of reductions and scans: their dtype, and the function that combines terms."""

from __future__ import annotations

from typing import NamedTuple

from codegen.lower.conversions import constant
from ir.dtype import DTYPES, dtype, promote
from ir.kernel.nodes import Const
from ir.region.region import Op

PART = 256
"""Additions to one accumulator before it is added to another: the error of a sum grows with its length."""
_FUNCTION = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


class Joining(NamedTuple):
    """How the terms of a reduction or scan are combined: terms of dtype `source`, in an accumulator of `dtype` that
    starts with `identity`, by the elementwise function `fn`."""

    source: str
    dtype: str
    fn: str
    identity: Const

    @staticmethod
    def of(op: Op, source: str) -> Joining:
        """For an op whose terms are of dtype `source`."""
        kind = accumulator(source, op.dtype)
        zero = "-0.0" if op.kind == "scan" and DTYPES[kind].is_float else 0  # since 0 + -0 is 0
        number = {"sum": zero, "prod": 1, "max": DTYPES[kind].lowest, "min": DTYPES[kind].highest}[op.fn]
        fn = {"sum": "max", "prod": "min"}.get(op.fn, op.fn) if kind == "bool" else _FUNCTION[op.fn]
        return Joining(source, kind, fn, constant(number, kind))


def accumulator(source: str, result: str) -> str:
    """The dtype in which values of `source` are reduced to `result`."""
    if not DTYPES[result].is_float:
        return result
    wider = promote(dtype(source).accumulator, dtype(result).accumulator)
    return (wider or dtype(result).accumulator).name
