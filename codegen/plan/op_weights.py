"""What one point of an op costs on a machine, in additions of a vector lane."""

from __future__ import annotations

from ir.dtype import DTYPES
from ir.region.region import Op
from ir.region.work import flops_per_point
from ir.target import Target
from ir.uop.table import UOPS

ADDITIONS_PER_CYCLE = 2
"""Of one unit's vector registers, where a cycle starts two multiply-adds."""
ROUNDED = ("fp16", "bf16")
"""Dtypes that compute in fp32 and round after every op."""
_ROUNDED_KINDS = ("ewise", "unary")
_COMBINED = {"sum": "add", "prod": "mul"}


def weight(op: Op, target: Target) -> float:
    """Additions-worth of `op` at one point of its domain, its rounding included."""
    dtype = _computed_in(op)
    found = target.weights.get(f"{op.fn} {dtype}") if op.kind in _ROUNDED_KINDS else None
    if found is None:
        fn = _COMBINED.get(op.fn, op.fn)
        found = float(UOPS[fn.upper()].flops if op.kind in ("reduce", "scan") else flops_per_point(op.kind, op.fn))
        found *= 2 if DTYPES[dtype].bytes == 8 else 1  # a register of its lanes is two of the machine's
    if op.dtype in ROUNDED and op.kind in _ROUNDED_KINDS:
        found += target.weights.get(f"cast {op.dtype}", 1.0)
    return found


def score_weight(fn: str, dtype: str, target: Target) -> float:
    """Additions-worth of one term of a stream besides its sum: the maximum, the difference, the exponential."""
    wide = 2 if DTYPES[dtype].bytes == 8 else 1
    exponential = target.weights.get(f"{fn} {dtype}")
    return 2.0 * wide + (UOPS[fn.upper()].flops * wide if exponential is None else exponential)


def _computed_in(op: Op) -> str:
    return "fp32" if op.dtype in ROUNDED else op.dtype
