"""Positions of extrema, orders and running sums along an axis."""

from __future__ import annotations

from typing import Literal

from eqsat import tensor
from eqsat.frontends.onnx.operands import known_number, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor, extremum_position

_MOST_RANKED = 4096
"""Elements along an axis that TopK compares with one another."""


def _register_extremum(name: str, fn: Literal["max", "min"]) -> None:
    @operator(name)
    def lower(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        """ONNX does not define the result for NaN; here NaN is the extremum, as in NumPy."""
        return extremum_position(x, fn, axis, bool(keepdims), bool(select_last_index))


_register_extremum("ArgMax", "max")
_register_extremum("ArgMin", "min")


@operator("TopK")
def _top_k_attribute(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return greatest_elements(x, k, axis, largest=True)


@operator("TopK", since=10)
def _top_k_input(x: Tensor, k: Tensor, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    return greatest_elements(x, int(known_number(k, "the number k")), axis, largest=True)


@operator("TopK", since=11)
def _top_k(x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    return greatest_elements(x, int(known_number(k, "the number k")), axis, bool(largest))


def greatest_elements(x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) elements along `axis` in order, and their positions, i64. Of equal elements the first
    one comes first.

    The rank of an element is the number of elements before it in the order: n² comparisons for n elements.
    """
    place = axis_in(axis, x.shape)
    size = x.shape[place]
    if size > _MOST_RANKED:
        refuse(f"TopK of {size} elements, more than {_MOST_RANKED},")
    rows = x.swapaxes(place, -1)
    one, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    grid = (*rows.shape, size)
    first = tensor.iota(grid, len(grid) - 1, "i64") < tensor.iota(grid, len(grid) - 2, "i64")
    wins = (other > one if largest else other < one) | ((other == one) & first)
    rank = wins.cast("i64").sum(-1)
    wanted = (*rows.shape[:-1], k, size)
    chosen = rank.unsqueeze(-2).expand(wanted) == tensor.iota(wanted, len(wanted) - 2, "i64")
    positions = tensor.where(chosen, tensor.iota(wanted, len(wanted) - 1, "i64"), 0).sum(-1)
    return rows.gather(rows.ndim - 1, positions).swapaxes(place, -1), positions.swapaxes(place, -1)


@operator("CumSum", since=11)
def _cumulative_sum(x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(x, axis, bool(exclusive), bool(reverse), product=False)


@operator("CumProd", since=26)
def _cumulative_product(x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(x, axis, bool(exclusive), bool(reverse), product=True)


def _running(x: Tensor, axis: Tensor, exclusive: bool, reverse: bool, product: bool) -> Tensor:
    """Running sums or products along an axis; with `exclusive`, without the element itself."""
    place = axis_in(int(known_number(axis, "the axis")), x.shape)
    source = x.flip(place) if reverse else x
    if exclusive and x.shape[place]:
        widths = [(0, 0)] * x.ndim
        widths[place] = (1, 0)
        before = (slice(None),) * place
        source = source[(*before, slice(0, x.shape[place] - 1))].pad(widths, 1 if product else 0)
    total = (source.cumprod(place) if product else source.cumsum(place)).cast(x.dtype)
    return total.flip(place) if reverse else total
