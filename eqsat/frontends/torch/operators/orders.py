"""Orders and running extrema along an axis, and positions in ordered rows."""

from __future__ import annotations

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import Number, axis_in
from eqsat.lazy.binary_search import count_before
from eqsat.lazy.first_elements import element_at_rank
from eqsat.tensor import Tensor, as_tensor, full, iota, where
from ir.dtype import i32, i64


@aten("topk")
def _top(x: Tensor, count: int, axis: int, largest: bool, ordered: bool) -> tuple[Tensor, Tensor]:
    """In order, even where the caller needs none."""
    if not x.ndim:
        return x, as_tensor(0)
    return nn.top_k(x, count, axis, largest)


@aten("sort")
def _sort(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Equal elements keep their order, and NaN is the greatest."""
    if not x.ndim:
        return x, as_tensor(0)
    return nn.top_k(x, x.shape[axis_in(axis, x.shape)], axis, descending)


@aten("sort.stable")
def _stable_sort(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _sort(x, dim, descending)


@aten("kthvalue")
def _kth(x: Tensor, k: int, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not x.ndim:
        return x, as_tensor(0)
    return x.kthvalue(k, axis, keepdim)


@aten("median.dim")
def _median(x: Tensor, axis: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower of the middle elements; the first NaN if there is one."""
    if not x.ndim:
        return x, as_tensor(0)
    place = axis_in(axis, x.shape)
    size = x.shape[place]
    middle = (size - 1) // 2
    rank = where(_nan_count(x, place) > 0, size - _nan_count(x, place), middle) if x.dtype.is_float else middle
    return element_at_rank(x, place, rank, keepdim)


@aten("nanmedian.dim")
def _median_of_numbers(x: Tensor, axis: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """As `median` of the elements that are not NaN."""
    if not x.ndim:
        return x, as_tensor(0)
    place = axis_in(axis, x.shape)
    numbers = x.shape[place] - _nan_count(x, place)
    return element_at_rank(x, place, (numbers - 1).maximum(0) // 2, keepdim)


@aten("median")
def _median_of_all(x: Tensor) -> Tensor:
    return _median(x.flatten(), 0)[0]


@aten("nanmedian")
def _median_of_all_numbers(x: Tensor) -> Tensor:
    return _median_of_numbers(x.flatten(), 0)[0]


@aten("mode")
def _mode(x: Tensor, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent element, of several the least, and its last position."""
    if not x.ndim:
        return x, as_tensor(0)
    place = axis_in(axis, x.shape)
    rows = x.swapaxes(place, -1)
    equal = rows.unsqueeze(-1) == rows.unsqueeze(-2)
    counts = equal.cast(i64).sum(-1)
    frequent = counts == counts.max(-1, keepdims=True)
    least = where(frequent, rows, x.dtype.highest).cast(x.dtype).min(-1, keepdims=True)
    position = where(rows == least, iota(rows.shape, rows.ndim - 1, i64), 0).max(-1, keepdims=True)
    value, position = least.swapaxes(place, -1), position.swapaxes(place, -1)
    return (value, position) if keepdim else (value.squeeze(place), position.squeeze(place))


@aten("cummax")
def _running_greatest(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The greatest element so far, and the last position of an equal one; NaN is the greatest."""
    if not x.ndim or not x.size:
        return x, iota(x.shape, 0, i64) if x.ndim else as_tensor(0)
    place = axis_in(axis, x.shape)
    greatest = Tensor("CUMMAX", [x], {"axis": place, "dtype": x.dtype.name})
    is_new = (x == greatest) | (x != x) if x.dtype.is_float else x == greatest
    positions = where(is_new, iota(x.shape, place, i64), 0)
    return greatest, Tensor("CUMMAX", [positions], {"axis": place, "dtype": "i64"})


@aten("cummin")
def _running_least(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """As `cummax` of −x, or of ¬x, which reverses the order of integers and bools."""
    greatest, positions = _running_greatest(-x if x.dtype.is_float else ~x, axis)
    return (-greatest if x.dtype.is_float else ~greatest), positions


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def _search(
    rows: Tensor,
    values: Tensor | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many elements of the ordered rows stand before each value: those below it, and, from the right, those equal
    to it; all of them before a NaN. A binary search."""
    ordered = rows if sorter is None else rows.gather(rows.ndim - 1, sorter)
    wanted, from_right = as_tensor(values), right or side == "right"
    size = ordered.shape[-1]
    result = i32 if out_int32 else i64
    if not size:
        nothing: Tensor = full(wanted.shape, 0, result)
        return nothing

    count: Tensor = count_before(ordered, wanted, ordered.ndim - 1, from_right).cast(result)
    return count


@aten("bucketize.Tensor", "bucketize.Scalar")
def _bucketize(values: Tensor | Number, bounds: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _search(bounds, values, out_int32=out_int32, right=right)


def _nan_count(x: Tensor, axis: int) -> Tensor:
    """The number of NaN in each row along the axis, which stays with size 1."""
    counts: Tensor = (x != x).cast(i64).sum(axis, keepdims=True)
    return counts
