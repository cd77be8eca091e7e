"""Norms. Statistics are computed in fp32 at least."""

from __future__ import annotations

from eqsat import nn, tensor
from eqsat.frontends.onnx.element_types import element_type
from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor
from ir.dtype import fp32


@operator("BatchNormalization")
def _batch_norm_old(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    is_test: int = 0,
    spatial: int = 1,
    consumed_inputs: list[int] | None = None,
) -> Tensor:
    if not is_test:
        refuse("training mode")
    return _batch_norm_spatial(x, scale, bias, mean, var, epsilon=epsilon, spatial=spatial)


@operator("BatchNormalization", since=7)
def _batch_norm_spatial(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Tensor:
    if not spatial:
        refuse("spatial=0")
    return nn.batch_norm(x, mean=mean, var=var, weight=scale, bias=bias, eps=epsilon).cast(x.dtype)


@operator("BatchNormalization", since=14)
def _batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Tensor, ...]:
    """In training mode with the statistics of x, and the running statistics as further results."""
    if not training_mode:
        return (nn.batch_norm(x, mean=mean, var=var, weight=scale, bias=bias, eps=epsilon).cast(x.dtype),)
    over = (0, *range(2, x.ndim))
    own_mean, own_var = x.mean(over), x.var(axis=over)
    y = nn.batch_norm(x, mean=own_mean, var=own_var, weight=scale, bias=bias, eps=epsilon).cast(x.dtype)
    running = [old * momentum + new.cast(old.dtype) * (1 - momentum) for old, new in ((mean, own_mean), (var, own_var))]
    return (y, *running)


@operator("InstanceNormalization")
def _instance_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, consumed_inputs: list[int] | None = None
) -> Tensor:
    """Standardizes every channel of every image by its own mean and variance."""
    return nn.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def per_channel(value: Tensor, x: Tensor) -> Tensor:
    """A number per channel, shaped to broadcast with x [N, C, …]."""
    return value.reshape(value.size, *(1,) * (x.ndim - 2))


def normalize(x: Tensor, axes: tuple[int, ...], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / √(var + epsilon) over these axes, the mean, and 1 / √(var + epsilon)."""
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    inverse = ((centred * centred).mean(axes, keepdims=True) + epsilon).rsqrt()
    return centred * inverse, mean, inverse


@operator("LayerNormalization", since=17)
@operator("LayerNormalization", domain="com.microsoft")
def _layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Over the axes from `axis` on; also the mean and 1 / √(var + epsilon)."""
    over = tuple(range(axis_in(axis, x.shape), x.ndim))
    normal, mean, inverse = normalize(x.cast(element_type(stash_type)), over, epsilon)
    scaled = normal.cast(x.dtype) * scale
    return (scaled if bias is None else scaled + bias), mean, inverse


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain="com.microsoft")
@operator("RMSNormalization", since=23)
def _rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    """x / √(mean x² + epsilon) · scale over the axes from `axis` on."""
    over = tuple(range(axis_in(axis, x.shape), x.ndim))
    wide = x.cast(element_type(stash_type))
    normal = wide * ((wide * wide).mean(over, keepdims=True) + epsilon).rsqrt()
    return normal.cast(scale.dtype) * scale


@operator("SkipLayerNormalization", domain="com.microsoft")
def _skip_layer_norm(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The layer norm of x + skip + bias; also the mean, the inverse deviation, and the sum."""
    total = x + skip if bias is None else x + skip + bias
    normal, mean, inverse = _layer_norm(total, gamma, beta, epsilon=epsilon)
    return normal, mean, inverse, total


@operator("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def _skip_rms_norm(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Tensor, None, None, Tensor]:
    """The RMS norm of x + skip + bias; also the sum, the fourth result."""
    total = x + skip if bias is None else x + skip + bias
    return _rms_norm(total, gamma, epsilon=epsilon), None, None, total


@operator("GroupNormalization", since=18)
def _group_norm_by_group(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """The scale and the bias have a number per group."""
    repeated = [
        weight.unsqueeze(1).expand(num_groups, x.shape[1] // num_groups).reshape(-1) for weight in (scale, bias)
    ]
    return _group_norm(x, *repeated, epsilon=epsilon, num_groups=num_groups, stash_type=stash_type)


@operator("GroupNormalization", since=21)
def _group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    grouped = x.cast(element_type(stash_type)).reshape(x.shape[0], num_groups, -1)
    normal, _, _ = normalize(grouped, (2,), epsilon)
    return normal.reshape(x.shape).cast(x.dtype) * per_channel(scale, x) + per_channel(bias, x)


@operator("LRN")
def _local_response_norm(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    return nn.local_response_norm(x, size, alpha, beta, bias, before=(size - 1) // 2)


@operator("LpNormalization")
def _lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x / ‖x‖ along `axis`; 0 where the norm is 0."""
    size = abs(x).sum(axis, keepdims=True) if p == 1 else (x * x).sum(axis, keepdims=True).sqrt()
    return x / tensor.where(size == 0, 1, size)


@operator("MeanVarianceNormalization", since=9)
def _mean_variance_norm(x: Tensor, *, axes: tuple[int, ...] = (0, 2, 3)) -> Tensor:
    wide = x.cast(fp32) if x.dtype.bits < fp32.bits else x
    centred = wide - wide.mean(axes, keepdims=True)
    deviation = (centred * centred).mean(axes, keepdims=True).sqrt()
    return (centred / (deviation + 1e-9)).cast(x.dtype)
