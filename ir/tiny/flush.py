"""Flushing of denormals in a Tiny graph: arithmetic reads and returns 0 in place of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import ml_dtypes
import numpy as np

from ir.dtype import fp16
from ir.tiny.graph import Node
from ir.uop.playback import Array
from ir.uop.table import UOpKind


class Flush(IntEnum):
    """The numbers replaced by 0: none; denormals; also denormal reciprocals, where x / y is x · (1 / y)."""

    NOTHING = 0
    DENORMALS = 1
    RECIPROCALS = 2


def flush_denormals(x: Array) -> Array:
    """The array with denormals replaced by zeros of their sign. fp16 keeps them: its arithmetic is done in fp32."""
    if x.dtype.kind in "biu" or x.dtype == fp16.numpy:
        return x
    return np.where(np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal, np.copysign(0, x), x).astype(x.dtype)


def computes(node: Node) -> bool:
    """Whether a uop does arithmetic on all elements; movements, lookups, choices, bits and the elements of a scatter
    without an update stay unchanged."""
    moves = node.op.kind in (UOpKind.MOVEMENT, UOpKind.GATHER, UOpKind.SCATTER)
    return not moves and not node.op.has_condition and not node.op.keeps_bits


def flush_operands(node: Node, operands: Sequence[Array], flush: Flush) -> list[Array]:
    """The operands that a uop computes with."""
    if flush is Flush.NOTHING or not computes(node):
        return list(operands)
    results = [flush_denormals(operand) for operand in operands]
    if flush is Flush.RECIPROCALS and node.uop == "FDIV":
        divisor = results[1]
        with np.errstate(all="ignore"):
            is_gone = flush_denormals(np.asarray(1 / divisor)) == 0
        results[1] = np.where(is_gone, np.copysign(np.inf, divisor), divisor).astype(divisor.dtype)
    return results
