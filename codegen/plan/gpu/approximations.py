"""Functions that the hardware approximates well enough for results of 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from codegen.plan.op_weights import ROUNDED
from ir.region.region import Op, Region

APPROXIMATED: Mapping[str, str] = MappingProxyType({"tanh": "tanh_approx"})
"""Function → the device function that takes its place. Its error, 2⁻¹¹ of the result, is that of rounding a result to
fp16, and a quarter of that of rounding to bf16."""


def approximation(op: Op) -> str | None:
    """The device function that may compute an op; None where there is none, or the result is not rounded to 16 bits."""
    return APPROXIMATED.get(op.fn) if op.kind == "unary" and op.dtype in ROUNDED else None


def has_approximations(region: Region) -> bool:
    """Whether an op of the region may be approximated."""
    return any(approximation(let.op) for let in region.body)
