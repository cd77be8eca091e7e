"""Softmax, and norms over axes, groups and batches. fp16 and bf16 are computed in fp32."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.tensor import Tensor, full, where
from ir.dtype import DType


@aten("_softmax")
def _softmax(x: Tensor, axis: int, half_to_float: bool = False, *, result: DType) -> Tensor:
    return nn.softmax(x.cast(result), axis) if x.ndim else (x.cast(result) * 0).exp()


@aten("_safe_softmax")
def _softmax_of_masked(x: Tensor, axis: int, dtype: DType | None = None, *, result: DType) -> Tensor:
    """As softmax; rows of −∞ alone give 0."""
    if not x.ndim:
        return where(x == -math.inf, 0.0, _softmax(x, axis, result=result)).cast(result)
    hidden = (x == -math.inf).cast("i32").min(axis, keepdims=True) == 1
    return where(hidden, 0.0, nn.softmax(x.cast(result), axis)).cast(result)


@aten("_log_softmax")
def _log_softmax(x: Tensor, axis: int, half_to_float: bool = False, *, result: DType) -> Tensor:
    return nn.log_softmax(x.cast(result), axis) if x.ndim else x.cast(result) * 0


def standardize(x: Tensor, axes: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x − mean) / √(variance + eps) over the axes, the mean, and 1 / √(variance + eps), the latter with axes of size
    1; all in the accumulator's dtype."""
    wide = x.cast(x.dtype.accumulator)
    mean = wide.mean(tuple(axes), keepdims=True)
    centred = wide - mean
    scale = ((centred * centred).mean(tuple(axes), keepdims=True) + eps).rsqrt()
    return centred * scale, mean, scale


@aten("native_layer_norm")
def _layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    result: tuple[DType, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    normal, mean, scale = standardize(x, range(x.ndim - len(shape), x.ndim), eps)
    scaled = normal if weight is None else normal * weight.cast(normal.dtype)
    shifted = scaled if bias is None else scaled + bias.cast(normal.dtype)
    return shifted.cast(result[0]), mean.cast(result[1]), scale.cast(result[2])


@aten("native_group_norm")
def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    plane: int,
    groups: int,
    eps: float,
    *,
    result: tuple[DType, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    normal, mean, scale = standardize(x.reshape(batch, groups, channels // groups, plane), (2, 3), eps)
    affine = _per_channel(normal.reshape(batch, channels, plane), weight, bias).reshape(x.shape)
    rows = (batch, groups)
    return affine.cast(result[0]), mean.reshape(rows).cast(result[1]), scale.reshape(rows).cast(result[2])


def _per_channel(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x · weight + bias, which have one number per channel, axis 1."""
    shape = (x.shape[1], *(1,) * (x.ndim - 2))
    scaled = x if weight is None else x * weight.cast(x.dtype).reshape(shape)
    return scaled if bias is None else scaled + bias.cast(x.dtype).reshape(shape)


@aten("_native_batch_norm_legit_no_training")
def _batch_norm_by_statistics(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
    *,
    result: tuple[DType, ...],
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    return _by_statistics(x, weight, bias, mean, variance, eps).cast(result[0]), *_nothing(result)


def _nothing(result: tuple[DType, ...]) -> tuple[Tensor, Tensor]:
    """The saved statistics of an inference: tensors without elements."""
    return full((0,), 0.0, result[1]), full((0,), 0.0, result[2])


def _by_statistics(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float
) -> Tensor:
    wide = x.cast(x.dtype.accumulator)
    shape = (x.shape[1], *(1,) * (x.ndim - 2))
    centred = wide - mean.cast(wide.dtype).reshape(shape)
    return _per_channel(centred * (variance.cast(wide.dtype).reshape(shape) + eps).rsqrt(), weight, bias)


def _by_batch(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The norm over batch and plane; per channel the mean, 1 / √(variance + eps), and the variance over n − 1."""
    axes = (0, *range(2, x.ndim))
    normal, mean, scale = standardize(x, axes, eps)
    count = math.prod(x.shape[axis] for axis in axes)
    wide = x.cast(x.dtype.accumulator)
    spread = ((wide - mean) * (wide - mean)).sum(axes) / float(max(count - 1, 0))
    flat = (x.shape[1],)
    return _per_channel(normal, weight, bias), mean.reshape(flat), scale.reshape(flat), spread


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
    result: tuple[DType, ...],
) -> tuple[Tensor, ...]:
    """The norm, the mean and 1 / √(variance + eps) of the batch, and the running mean and variance after it."""
    if not training:
        normal = _by_statistics(x, weight, bias, mean, variance, eps)
        return normal.cast(result[0]), *_nothing(result), mean, variance
    normal, own, scale, spread = _by_batch(x, weight, bias, eps)
    means = own.cast(mean.dtype) * momentum + mean * (1 - momentum)
    variances = spread.cast(variance.dtype) * momentum + variance * (1 - momentum)
    return normal.cast(result[0]), own.cast(result[1]), scale.cast(result[2]), means, variances


@aten("_native_batch_norm_legit.no_stats")
def _batch_norm_of_batch(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    result: tuple[DType, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    normal, mean, scale, _ = _by_batch(x, weight, bias, eps)
    return normal.cast(result[0]), mean.cast(result[1]), scale.cast(result[2])


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
    result: tuple[DType, ...],
) -> tuple[Tensor, ...]:
    """As above in training, with an empty reserve between the results."""
    first, own, scale, means, variances = _batch_norm(
        x, weight, bias, mean, variance, True, momentum, eps, result=result
    )
    return first, own, scale, full((0,), 0, result[3]), means, variances
