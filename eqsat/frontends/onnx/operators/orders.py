"""Positions of extrema, orders and running sums along an axis."""

from __future__ import annotations

from typing import Literal

from eqsat import nn
from eqsat.frontends.onnx.operands import known_number
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor, extremum_position


def _register_extremum(name: str, fn: Literal["max", "min"]) -> None:
    @operator(name)
    def lower(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        """ONNX does not define the result for NaN; here NaN is the extremum, as in NumPy."""
        return extremum_position(x, fn, axis, bool(keepdims), bool(select_last_index))


_register_extremum("ArgMax", "max")
_register_extremum("ArgMin", "min")


@operator("TopK")
def _top_k_attribute(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return nn.top_k(x, k, axis, largest=True)


@operator("TopK", since=10)
def _top_k_input(x: Tensor, k: Tensor, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    return nn.top_k(x, int(known_number(k, "the number k")), axis, largest=True)


@operator("TopK", since=11)
def _top_k(x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    return nn.top_k(x, int(known_number(k, "the number k")), axis, bool(largest))


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
