"""The order of elements along an axis."""

from __future__ import annotations

from eqsat.lazy.argument_checks import STAGE, axis_in, integer
from eqsat.nn.operands import Operand
from eqsat.tensor import Tensor, as_tensor, iota, where
from ir.diagnostics import Kind, fail

_MOST_RANKED = 4096
"""Elements along an axis that `top_k` compares with one another."""


def top_k(x: Operand, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) elements along `axis` in order, and their positions, i64. Of equal elements the first
    one comes first. NaN is greater than all numbers.

    The rank of an element is the number of elements before it in the order: n² comparisons for n elements.

    Raises:
        EqsatError: UnsupportedOp for an axis of more than 4,096 elements, MalformedGraph for a k beyond the axis.
    """
    x = as_tensor(x)
    place = axis_in(axis, x.shape)
    size = x.shape[place]
    if size > _MOST_RANKED:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"an order of {size} elements, more than {_MOST_RANKED}, is not supported")
    if not 0 <= integer(k, "k") <= size:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"there are no {k} elements along axis {axis}", op="top_k", shape=x.shape)
    rows = x.swapaxes(place, -1)
    one, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    grid = (*rows.shape, size)
    comes_first = iota(grid, len(grid) - 1, "i64") < iota(grid, len(grid) - 2, "i64")
    wins = _is_greater(other, one) if largest else _is_greater(one, other)
    ties = ~(_is_greater(other, one) | _is_greater(one, other))
    rank = (wins | (ties & comes_first)).cast("i64").sum(-1)
    wanted = (*rows.shape[:-1], k, size)
    chosen = rank.unsqueeze(-2).expand(wanted) == iota(wanted, len(wanted) - 2, "i64")
    positions = where(chosen, iota(wanted, len(wanted) - 1, "i64"), 0).sum(-1)
    return rows.gather(rows.ndim - 1, positions).swapaxes(place, -1), positions.swapaxes(place, -1)


def _is_greater(x: Tensor, y: Tensor) -> Tensor:
    """Whether x is greater than y, or NaN where y is none."""
    greater: Tensor = x > y
    return greater | ((x != x) & (y == y)) if x.dtype.is_float else greater
