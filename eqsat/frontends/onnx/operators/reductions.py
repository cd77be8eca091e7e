"""Reductions over axes. The list of axes was an attribute before opset 18 (13 for ReduceSum), and is an input since."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.frontends.onnx.operands import axes_of
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axes_in
from eqsat.tensor import Tensor

Axes = tuple[int, ...]
Reduction = Callable[[Tensor, Axes, bool], Tensor]


def _sum(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return x.sum(axes, keepdims, x.dtype)


def _mean(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """The mean; of integers, rounded to zero."""
    return x.mean(axes, keepdims).cast(x.dtype)


def _log_sum_exp(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    """log Σ exp x, without overflow; an infinite maximum is not subtracted."""
    floats = x if x.dtype.is_float else x.cast("fp64")
    greatest = floats.max(axes, keepdims=True)
    shift = greatest.minimum(_greatest_finite(greatest)).maximum(-_greatest_finite(greatest))
    total = (floats - shift).exp().sum(axes, keepdims=True).log() + shift
    return (total if keepdims else total.squeeze(axes)).cast(x.dtype)


def _greatest_finite(x: Tensor) -> float:
    """The greatest finite number of a float dtype, or close to it."""
    return {"fp16": 65504.0, "bf16": 3.38e38, "fp32": 3.4e38}.get(x.dtype.name, 1.7e308)


def _root_of_squares(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    total = _sum(x * x, axes, keepdims)
    return total.sqrt() if x.dtype.is_float else total.cast("fp64").sqrt().cast(x.dtype)


def _log_sum(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    total = _sum(x, axes, keepdims)
    return total.log() if x.dtype.is_float else total.cast("fp64").log().cast(x.dtype)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": lambda x, axes, keepdims: x.amax(axes, keepdims),
    "ReduceMin": lambda x, axes, keepdims: x.amin(axes, keepdims),
    "ReduceProd": lambda x, axes, keepdims: x.prod(axes, keepdims, x.dtype),
    "ReduceL1": lambda x, axes, keepdims: _sum(abs(x), axes, keepdims),
    "ReduceL2": _root_of_squares,
    "ReduceSumSquare": lambda x, axes, keepdims: _sum(x * x, axes, keepdims),
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


def _register(name: str, reduction: Reduction) -> None:
    @operator(name)
    def lower_attribute(x: Tensor, *, axes: Axes | None = None, keepdims: int = 1) -> Tensor:
        return reduction(x, axes_in(axes, x.shape), bool(keepdims))

    @operator(name, since=13 if name == "ReduceSum" else 18)
    def lower(x: Tensor, axes: Tensor | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        """Over all axes, if none are listed; with `noop_with_empty_axes`, over none."""
        listed = axes_of(axes, x)
        over = listed if listed or noop_with_empty_axes else tuple(range(x.ndim))
        return reduction(x, over or (), bool(keepdims))


for _name, _reduction in _REDUCTIONS.items():
    _register(_name, _reduction)
