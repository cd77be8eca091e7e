"""Where along an axis the greatest and the least elements are: an extremum, and the least position that has it.

best = max x over the axis
y    = min over the axis of (i where x[i] is best or no number, else a position beyond all)
"""

from __future__ import annotations

from typing import Literal

from eqsat.lazy.written import STAGE, axis_in, flag
from eqsat.tensor import Tensor, iota, where
from ir.diagnostics import Kind, fail
from ir.dtype import i32, i64


def position(
    x: Tensor, extremum: Literal["max", "min"], axis: int | None, keepdims: bool = False, last: bool = False
) -> Tensor:
    """The first position (`last`: the last one) of the extremum along `axis`, None: in the flattened tensor; i64. The
    first NaN comes before any number, as in NumPy.

    Raises:
        EqsatError: MalformedGraph where the axis has no elements.
    """
    if axis is None:
        found = position(x.flatten(), extremum, 0, False, last)
        return found.reshape((1,) * x.ndim) if flag(keepdims, "keepdims") else found
    size = x.shape[axis_in(axis, x.shape)]
    if not size:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"no element along axis {axis}", op=f"arg{extremum}", shape=x.shape)
    best = x.max(axis, keepdims=True) if extremum == "max" else x.min(axis, keepdims=True)
    is_best = (x == best) | (x != x) if x.dtype.is_float else x == best
    places = iota(x.shape, axis, i32 if size <= 2**31 - 1 else i64)
    if last:
        return where(is_best, places, -1).max(axis, keepdims).cast(i64)
    return where(is_best, places, size).min(axis, keepdims).cast(i64)
