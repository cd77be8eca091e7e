"""The greatest elements of an axis, and sorting."""

from __future__ import annotations

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor, full


@aten("topk")
def _top(x: Tensor, count: int, axis: int, largest: bool, ordered: bool) -> tuple[Tensor, Tensor]:
    """In order, even where the caller needs none."""
    if not x.ndim:
        return x, full((), 0, "i64")
    return nn.top_k(x, count, axis, largest)


@aten("sort")
def _sort(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Equal elements keep their order."""
    if not x.ndim:
        return x, full((), 0, "i64")
    return nn.top_k(x, x.shape[axis_in(axis, x.shape)], axis, descending)


@aten("sort.stable")
def _stable_sort(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _sort(x, dim, descending)
