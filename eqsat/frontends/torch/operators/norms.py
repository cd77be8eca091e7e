"""Softmax and norms, with the statistics that their gradients read."""

from __future__ import annotations

import math
from typing import NamedTuple

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor, full, where
from ir.dtype import DType

Results = tuple[DType, ...]


@aten("_softmax", "softmax.int")
def _softmax(x: Tensor, axis: int, _: object = None, *, dtype: DType | None = None, result: DType) -> Tensor:
    return nn.softmax(x.cast(result), axis) if x.ndim else full((), 1.0, result)


@aten("_safe_softmax")
def _softmax_of_masked(x: Tensor, axis: int, dtype: DType | None = None, *, result: DType) -> Tensor:
    """As softmax; rows of −∞ alone give 0."""
    if not x.ndim:
        return where(x == -math.inf, 0.0, _softmax(x, axis, result=result)).cast(result)
    hidden = (x == -math.inf).cast("i32").min(axis, keepdims=True) == 1
    return where(hidden, 0.0, nn.softmax(x.cast(result), axis)).cast(result)


@aten("_log_softmax", "log_softmax.int")
def _log_softmax(x: Tensor, axis: int, _: object = None, *, dtype: DType | None = None, result: DType) -> Tensor:
    return nn.log_softmax(x.cast(result), axis) if x.ndim else full((), 0.0, result)


class _Standard(NamedTuple):
    """x − mean times the reciprocal deviation, and both statistics with axes of size 1; all in the accumulator."""

    normal: Tensor
    mean: Tensor
    variance: Tensor
    reciprocal: Tensor


def _standardize(x: Tensor, over: tuple[int, ...], eps: float) -> _Standard:
    wide = x.cast(x.dtype.accumulator)
    mean = wide.mean(over, keepdims=True)
    centred = wide - mean
    variance = (centred * centred).mean(over, keepdims=True)
    reciprocal = (variance + eps).rsqrt()
    return _Standard(centred * reciprocal, mean, variance, reciprocal)


def _affine(normal: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    """normal · weight + bias; both are reshaped to `shape`."""
    scaled = normal if weight is None else normal * weight.cast(normal.dtype).reshape(shape)
    return scaled if bias is None else scaled + bias.cast(normal.dtype).reshape(shape)


@aten("native_layer_norm")
def _layer_norm(
    x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float, *, result: Results
) -> tuple[Tensor, Tensor, Tensor]:
    standardized = _standardize(x, tuple(range(x.ndim - len(shape), x.ndim)), eps)
    y = _affine(standardized.normal, weight, bias, tuple(shape))
    return y.cast(result[0]), standardized.mean.cast(result[1]), standardized.reciprocal.cast(result[2])


@aten("_fused_rms_norm")
def _rms_norm(
    x: Tensor, shape: list[int], weight: Tensor | None, eps: float | None, *, result: Results
) -> tuple[Tensor, Tensor]:
    """eps: None is the distance from 1 to the next number of the dtype."""
    least = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-23}.get(x.dtype.name, 2.0**-52)
    wide = x.cast(x.dtype.accumulator)
    over = tuple(range(x.ndim - len(shape), x.ndim))
    reciprocal = ((wide * wide).mean(over, keepdims=True) + (least if eps is None else eps)).rsqrt()
    return _affine(wide * reciprocal, weight, None, tuple(shape)).cast(result[0]), reciprocal.cast(result[1])


@aten("native_group_norm")
def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
    *,
    result: Results,
) -> tuple[Tensor, Tensor, Tensor]:
    standardized = _standardize(x.reshape(batch, groups, channels * pixels // groups), (2,), eps)
    y = _affine(standardized.normal.reshape(x.shape), weight, bias, _per_channel(x))
    statistics = (standardized.mean.reshape(batch, groups), standardized.reciprocal.reshape(batch, groups))
    return y.cast(result[0]), statistics[0].cast(result[1]), statistics[1].cast(result[2])


@aten("_native_batch_norm_legit_no_training")
def _batch_norm_of_inference(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
    *,
    result: Results,
) -> tuple[Tensor, Tensor, Tensor]:
    """One scale and one shift per channel."""
    wide = x.dtype.accumulator
    scale = (variance.cast(wide) + eps).rsqrt()
    scale = scale if weight is None else scale * weight.cast(wide)
    shift = -(mean.cast(wide) * scale)
    shift = shift if bias is None else bias.cast(wide) + shift
    per_channel = _per_channel(x)
    y = x.cast(wide) * scale.reshape(per_channel) + shift.reshape(per_channel)
    nothing = [full((0,), 0.0, element) for element in result[1:]]
    return y.cast(result[0]), nothing[0], nothing[1]


@aten("_native_batch_norm_legit_functional")
def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    training: bool,
    momentum: float,
    eps: float,
    *,
    result: Results,
) -> tuple[Tensor, ...]:
    """The norm, the statistics of the batch, and the new running statistics."""
    if not training:
        return (
            *_batch_norm_of_inference(x, weight, bias, mean, variance, momentum, eps, result=result[:3]),
            mean,
            variance,
        )
    y, batch_mean, reciprocal, batch_variance = _norm_of_batch(x, weight, bias, eps)
    count = x.size // x.shape[1]
    unbiased = batch_variance * (count / (count - 1) if count > 1 else math.inf)
    running = (
        new.cast(old.dtype) * momentum + old * (1 - momentum) for new, old in ((batch_mean, mean), (unbiased, variance))
    )
    results = (y, batch_mean, reciprocal, *running)
    return tuple(value.cast(element) for value, element in zip(results, result, strict=True))


@aten("_native_batch_norm_legit.no_stats")
def _batch_norm_without_statistics(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    result: Results,
) -> tuple[Tensor, ...]:
    results = _norm_of_batch(x, weight, bias, eps)[:3]
    return tuple(value.cast(element) for value, element in zip(results, result, strict=True))


def _norm_of_batch(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The norm, and mean, reciprocal deviation and variance of each channel, in the accumulator."""
    moments = _standardize(x, (0, *range(2, x.ndim)), eps)
    y = _affine(moments.normal, weight, bias, _per_channel(x))
    channels = x.shape[1]
    return y, moments.mean.reshape(channels), moments.reciprocal.reshape(channels), moments.variance.reshape(channels)


def _per_channel(x: Tensor) -> tuple[int, ...]:
    """The shape of one number per channel of x [N, C, …]."""
    return x.shape[1], *(1,) * (x.ndim - 2)


@aten("_batch_norm_with_update_functional")
def _batch_norm_with_reserve(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
    *,
    result: Results,
) -> tuple[Tensor, ...]:
    """As above in training, with an empty reserve between the results."""
    without = (*result[:3], *result[4:])
    *first, means, variances = _batch_norm(x, weight, bias, mean, variance, True, momentum, eps, result=without)
    return *first, full((0,), 0, result[3]), means, variances


@aten("_weight_norm_interface_backward")
def _weight_norm_gradients(gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Of w = v · g / ‖v‖ with norms over all axes but one: d = Σ dw · v, dv = g / ‖v‖ · (dw − v · d / ‖v‖²), and
    dg = d / ‖v‖."""
    wide = v.dtype.accumulator
    dw, wide_v, wide_g, size = (x.cast(wide) for x in (gradient, v, g, norms))
    others = tuple(other for other in range(v.ndim) if other != axis_in(axis, v.shape))
    along = (dw * wide_v).sum(others, keepdims=True)
    of_v = wide_g / size * (dw - wide_v * (along / (size * size)))
    return of_v.cast(v.dtype), (along / size).cast(g.dtype)
