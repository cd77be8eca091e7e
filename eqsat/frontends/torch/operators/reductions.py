"""Sums, means, extrema and running sums along axes. No axis in the list means all axes."""

from __future__ import annotations

import math

from eqsat.frontends import elementary
from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import axes_in, axis_in
from eqsat.tensor import Tensor, barrier, extremum_position
from ir.dtype import DType

Axes = int | list[int] | None


def axes_of(dim: Axes, x: Tensor) -> tuple[int, ...]:
    """The axes that torch's `dim` names, from the front; all for None and for an empty list. A tensor of rank 0 has
    the axes 0 and -1, which are none."""
    if dim is None or dim == [] or not x.ndim:
        return tuple(range(x.ndim))
    return axes_in(dim, x.shape)


@aten("sum", "sum.dim_IntList")
def _sum(x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None, result: DType) -> Tensor:
    return x.cast(result).sum(axes_of(dim, x), keepdim, result)


@aten("mean", "mean.dim")
def _mean(x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None, result: DType) -> Tensor:
    return x.cast(result).mean(axes_of(dim, x), keepdim)


@aten("prod", "prod.dim_int")
def _product(
    x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None, result: DType
) -> Tensor:
    return x.cast(result).prod(axes_of(dim, x), keepdim, result)


@aten("amax", "max")
def _greatest(x: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    return x.amax(axes_of(dim, x), keepdim)


@aten("amin", "min")
def _least(x: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    return x.amin(axes_of(dim, x), keepdim)


@aten("max.dim")
def _greatest_with_place(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return x.amax(axes_of(dim, x), keepdim), _place(x, "max", dim, keepdim)


@aten("min.dim")
def _least_with_place(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return x.amin(axes_of(dim, x), keepdim), _place(x, "min", dim, keepdim)


@aten("argmax")
def _place_of_greatest(x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    return _place(x, "max", dim, keepdim)


@aten("argmin")
def _place_of_least(x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    return _place(x, "min", dim, keepdim)


def _place(x: Tensor, extremum: str, dim: int | None, keepdim: bool) -> Tensor:
    if not x.ndim:
        return extremum_position(x.reshape(1), extremum, 0)
    return extremum_position(x, extremum, dim, keepdim)


@aten("any", "any.dim", "any.dims")
def _any(x: Tensor, dim: Axes = None, keepdim: bool = False, *, result: DType) -> Tensor:
    return x.cast("bool").amax(axes_of(dim, x), keepdim).cast(result)


@aten("all", "all.dim", "all.dims")
def _all(x: Tensor, dim: Axes = None, keepdim: bool = False, *, result: DType) -> Tensor:
    return x.cast("bool").amin(axes_of(dim, x), keepdim).cast(result)


@aten("var.correction")
def _variance(x: Tensor, dim: Axes, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return variance_and_mean(x, dim, correction, keepdim)[0]


@aten("std.correction")
def _deviation(x: Tensor, dim: Axes, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return variance_and_mean(x, dim, correction, keepdim, root=True)[0]


@aten("var_mean.correction")
def _variance_and_mean(
    x: Tensor, dim: Axes, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return variance_and_mean(x, dim, correction, keepdim)


def variance_and_mean(
    x: Tensor, dim: Axes, correction: float | None, keepdim: bool, root: bool = False
) -> tuple[Tensor, Tensor]:
    """Σ (x − mean)² / (n − correction), its root if `root`, and the mean; fp16 and bf16 are computed in fp32.
    correction: None is 1."""
    axes = axes_of(dim, x)
    wide = x.cast(x.dtype.accumulator)
    mean = wide.mean(axes, keepdims=True)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    squares = ((wide - mean) * (wide - mean)).sum(axes, keepdim)
    left = max(count - (1 if correction is None else correction), 0)
    spread = squares / float(left)
    flat = mean if keepdim else mean.squeeze(axes)
    return (spread.sqrt() if root else spread).cast(x.dtype), flat.cast(x.dtype)


@aten("cumsum")
def _running_sum(x: Tensor, dim: int, *, dtype: DType | None = None, result: DType) -> Tensor:
    return x.cast(result).cumsum(axis_in(dim, x.shape)).cast(result) if x.ndim else x.cast(result)


@aten("cumprod")
def _running_product(x: Tensor, dim: int, *, dtype: DType | None = None, result: DType) -> Tensor:
    return x.cast(result).cumprod(axis_in(dim, x.shape)).cast(result) if x.ndim else x.cast(result)


@aten("logcumsumexp")
def _running_log_sum(x: Tensor, dim: int) -> Tensor:
    """log Σ exp of the elements so far. In step k, each element takes in the sum of the 2^k elements that end 2^k
    places before it (Hillis and Steele, "Data parallel algorithms", 1986)."""
    if not x.ndim or not x.size:
        return x
    place = axis_in(dim, x.shape)
    total = x.cast(x.dtype.accumulator)
    reach = 1
    while reach < x.shape[place]:
        widths = [(reach, 0) if axis == place else (0, 0) for axis in range(x.ndim)]
        before = total.pad(widths, -math.inf).narrow(place, 0, x.shape[place])
        total = barrier(elementary.log_add(total, before))
        reach *= 2
    return total.cast(x.dtype)


@aten("linalg_vector_norm")
def _vector_norm(
    x: Tensor,
    order: float,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    result: DType,
) -> Tensor:
    return x.cast(result).norm(order, axes_of(dim, x), keepdim)


@aten("dist")
def _distance(x: Tensor, y: Tensor, order: float = 2, *, result: DType) -> Tensor:
    """The norm of x − y."""
    difference: Tensor = x.cast(result) - y.cast(result)
    return difference.norm(order)
