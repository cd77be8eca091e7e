"""The arithmetic of one point of an op on a machine, in additions of a vector lane ("additions-worth")."""

from __future__ import annotations

from ir.dtype import DTYPES
from ir.region.region import Op
from ir.region.work import flops_per_point
from ir.target import Target
from ir.uop.table import FUNCTIONS, UOPS

ADDITIONS_PER_CYCLE = 2
"""Vector additions that a unit starts per cycle: a cycle is the time in which it starts two of them."""
ROUNDED = ("fp16", "bf16")
"""Dtypes that compute in fp32 and round after every op."""
SHORT_FUNCTIONS = frozenset(["add", "sub", "mul", "max", "min", "relu", "neg", "cast"])
"""Functions of one or two vector instructions on every CPU."""
_ROUNDED_KINDS = ("ewise", "unary")
_COMBINED = {"sum": "add", "prod": "mul"}


def weight(op: Op, target: Target) -> float:
    """Additions-worth of `op` at one point of its domain, its rounding included."""
    dtype = _compute_dtype(op)
    additions = target.weights.get(f"{op.fn} {dtype}") if op.kind in _ROUNDED_KINDS else None
    if additions is None:
        fn = _COMBINED.get(op.fn, op.fn)
        additions = float(FUNCTIONS[fn].flops if op.kind in ("reduce", "scan") else flops_per_point(op.kind, op.fn))
        additions *= 2 if DTYPES[dtype].bytes == 8 else 1  # 64-bit lanes fill two registers of the machine
    if op.dtype in ROUNDED and op.kind in _ROUNDED_KINDS:
        additions += target.weights.get(f"cast {op.dtype}", 1.0)
    return additions


def division_weight(target: Target) -> float:
    """Additions-worth of dividing the index of a gather."""
    return target.weights.get("idiv i64", 2.0 * UOPS["IDIV"].flops)


def score_weight(fn: str, dtype: str, target: Target) -> float:
    """Additions-worth of one term of a stream, without its sum: maximum, difference and exponential."""
    wide = 2 if DTYPES[dtype].bytes == 8 else 1
    exponential = target.weights.get(f"{fn} {dtype}")
    return 2.0 * wide + (FUNCTIONS[fn].flops * wide if exponential is None else exponential)


def _compute_dtype(op: Op) -> str:
    return "fp32" if op.dtype in ROUNDED else op.dtype
