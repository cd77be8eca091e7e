"""What flushing denormals does to a Tiny graph: arithmetic takes and gives 0 in place of them."""

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
    """What becomes 0: nothing; denormals; reciprocals that are denormal as well, where x / y is x · (1 / y)."""

    NOTHING = 0
    DENORMALS = 1
    RECIPROCALS = 2


def flushed(x: Array) -> Array:
    """The array with zeros of their sign for denormals. fp16 keeps them: arithmetic on fp16 is done in fp32."""
    if x.dtype.kind in "biu" or x.dtype == fp16.numpy:
        return x
    return np.where(np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal, np.copysign(0, x), x).astype(x.dtype)


def computes(node: Node) -> bool:
    """Whether a uop does arithmetic: movements, lookups and choices take and give values as they are."""
    return node.op.kind not in (UOpKind.MOVEMENT, UOpKind.GATHER, UOpKind.TERNARY)


def flushed_operands(node: Node, operands: Sequence[Array], flush: Flush) -> list[Array]:
    """What a uop takes in place of its operands."""
    if flush is Flush.NOTHING or not computes(node):
        return list(operands)
    found = [flushed(each) for each in operands]
    if flush is Flush.RECIPROCALS and node.uop == "FDIV":
        with np.errstate(all="ignore"):
            gone = flushed(np.asarray(1 / found[1])) == 0
        found[1] = np.where(gone, np.copysign(np.inf, found[1]), found[1]).astype(found[1].dtype)
    return found
