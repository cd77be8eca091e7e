"""Cache lines that the second-level cache does not hold when a call reads them first."""

from __future__ import annotations

from ir.target import Target

FAR_LINE = 18.0
"""Cycles that a core waits for such a line where its neighbours in time lie on pages of their own: no prefetcher
foresees the reads. Fitted to columns of matrix products that are read in long blocks of k."""
_SHARE = 0.75
"""The share of the cache that an operand may have: the other tensors of a call take the rest."""


def are_far(operand: float, target: Target) -> bool:
    """Whether the lines of an operand of so many bytes, which one core reads, are far."""
    return operand >= _SHARE * target.l2_bytes


def share_of_core(operand: float, parts: int, other_parts: int, target: Target) -> float:
    """The bytes of an operand of a contraction that one core reads, where the tasks have `parts` of the operand: if the
    other operand is whole, each core reads its own parts."""
    return operand / max(1, min(parts, target.units)) if other_parts == 1 else operand
