"""Shapes → the shape to which they broadcast."""

from __future__ import annotations

from eqsat.lazy.argument_checks import refuse
from ir.diagnostics import Kind


def broadcast_shape(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The broadcast shape by NumPy's rule: aligned at the right, sizes equal or 1. Raises EqsatError,
    BroadcastMismatch."""
    shape = broadcast(*shapes)
    if shape is None:
        hint = "sizes that agree from the right, or are 1; unsqueeze(axis) inserts an axis of size 1"
        refuse(Kind.BROADCAST_MISMATCH, op, "sizes differ and neither is 1", *shapes, hint=hint)
    return shape


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape to which these shapes broadcast; None if there is none."""
    rank = max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    wanted = [{*along} - {1} or {1} for along in zip(*aligned, strict=True)]
    return None if any(len(sizes) > 1 for sizes in wanted) else tuple(size for (size,) in wanted)
