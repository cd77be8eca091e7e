"""The order of elements along an axis."""

from __future__ import annotations

from eqsat.lazy.orders import Ordered
from eqsat.nn.operands import Operand
from eqsat.tensor import as_tensor


def top_k(x: Operand, k: int, axis: int = -1, largest: bool = True) -> Ordered:
    """`Tensor.topk`: the k greatest (or least) elements along `axis` in order, and their positions, i64."""
    return as_tensor(x).topk(k, axis, largest)
