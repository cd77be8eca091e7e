"""Norms: over the last axes, per channel, per group of channels, and over neighbouring channels."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from eqsat.lazy.argument_checks import STAGE, axis_in, integer, is_shape, number, refuse, sizes
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.nn.operands import Operand, floats_of, per_channel
from eqsat.tensor import Tensor, as_tensor
from ir.diagnostics import Kind, fail


def _with_torchs_shape(norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Lets a norm also be called like torch's, `norm(x, shape, weight, …)` or with `normalized_shape=`: the sizes of
    the normalized axes. A list of whole numbers is taken for a shape, not for a weight."""

    @wraps(norm)
    def call(x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        if "normalized_shape" in keywords:
            shape = keywords.pop("normalized_shape")
        elif arguments and is_shape(arguments[0]):
            shape, *arguments = arguments  # type: ignore[assignment]
        else:
            return norm(x, *arguments, **keywords)
        wanted, shape_of_x = sizes(shape, "normalized_shape"), as_tensor(x).shape
        if not wanted or shape_of_x[-len(wanted) :] != wanted:
            message = "the normalized shape is no end of the shape of x"
            hint = f"the last sizes of x; {norm.__name__}(x, weight, axes=…) takes their number alone"
            refuse(Kind.AXIS_SIZE_MISMATCH, norm.__name__, message, shape_of_x, wanted, hint=hint)
        return norm(x, *arguments, **keywords, axes=len(wanted))

    return call


@_with_torchs_shape
def layer_norm(
    x: Tensor, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5, axes: int = 1
) -> Tensor:
    """(x − mean) / √(var + eps) · weight + bias over the last `axes` axes. Also accepts torch's call,
    `layer_norm(x, normalized_shape, weight, bias, eps)`."""
    floats = floats_of(x)
    normal = _standardize(floats, _last(axes, floats, "layer_norm"), eps)
    return _affine("layer_norm", normal, weight, bias)


@_with_torchs_shape
def rms_norm(x: Tensor, weight: Operand | None = None, eps: float = 1e-6, axes: int = 1) -> Tensor:
    """x / √(mean x² + eps) · weight over the last `axes` axes (Zhang & Sennrich, 2019). Also accepts torch's call,
    `rms_norm(x, normalized_shape, weight, eps)`."""
    floats = floats_of(x)
    over = _last(axes, floats, "rms_norm")
    wide = floats.cast(floats.dtype.accumulator)
    normal = wide * ((wide * wide).mean(over, keepdims=True) + number(eps, "eps")).rsqrt()
    return _affine("rms_norm", normal.cast(floats.dtype), weight, None)


def batch_norm(
    x: Tensor,
    *ordered: Tensor,
    mean: Tensor | None = None,
    var: Tensor | None = None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    axis: int = 1,
) -> Tensor:
    """Inference: (x − mean) / √(var + eps) · weight + bias per channel, as one scale and one shift.

    Statistics and weights have the same shape, and are passed by name.
    """
    if ordered or mean is None or var is None:
        hint = "mean=, var=, weight= and bias= by name: torch has them in this order, ONNX in another"
        refuse(Kind.MALFORMED_GRAPH, "batch_norm", "pass statistics and weights by name", as_tensor(x).shape, hint=hint)
    scale = (as_tensor(var) + number(eps, "eps")).rsqrt()
    scale = scale if weight is None else as_tensor(weight) * scale
    shift = -as_tensor(mean) * scale if bias is None else bias - mean * scale
    x = as_tensor(x)
    place = axis_in(axis, x.shape)
    return x * per_channel("batch_norm", scale, x, place) + per_channel("batch_norm", shift, x, place)


def group_norm(
    x: Tensor, num_groups: int, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5
) -> Tensor:
    """(x − mean) / √(var + eps) · weight + bias over each group of channels of x [N, C, …] and its spatial axes (Wu &
    He, 2018). Weight and bias have one number per channel."""
    return _grouped("group_norm", floats_of(x), num_groups, weight, bias, eps)


def instance_norm(
    x: Tensor, *ordered: Tensor, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5
) -> Tensor:
    """(x − mean) / √(var + eps) · weight + bias over the spatial axes of x [N, C, …]. Weight and bias have one number
    per channel, and are passed by name."""
    if ordered:
        hint = "weight= and bias= by name: in torch, running statistics come first; with these, call batch_norm"
        refuse(Kind.MALFORMED_GRAPH, "instance_norm", "pass weights by name", as_tensor(x).shape, hint=hint)
    floats = floats_of(x)
    return _grouped("instance_norm", floats, floats.shape[1] if floats.ndim > 1 else 0, weight, bias, eps)


def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """x / (bias + alpha/size · Σ x²)^beta over `size` neighbouring channels of x [N, C, …] (Krizhevsky 2012)."""
    x = floats_of(x)
    if integer(size, "size") < 1 or x.ndim < 2:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"no window of {size} channels", op="local_response_norm", shape=x.shape)
    before = (size - 1) // 2
    around = (x * x).swapaxes(1, -1).pad([(0, 0)] * (x.ndim - 1) + [(before, size - 1 - before)])
    windows = Tensor("POOL", [around], {"kernel": (size,), "stride": (1,), "dilation": (1,)})
    scale = number(alpha, "alpha") / size
    return x * (windows.sum(-1).swapaxes(1, -1) * scale + number(bias, "bias")) ** -number(beta, "beta")


def _grouped(op: str, x: Tensor, groups: int, weight: Operand | None, bias: Operand | None, eps: float) -> Tensor:
    """x [N, C, …], standardized over each group of channels, times the weight plus the bias of each channel."""
    if x.ndim < 2 or integer(groups, "num_groups") < 1 or x.shape[1] % groups:
        hint = "x [N, C, …] with a C that the number of groups divides"
        refuse(Kind.AXIS_SIZE_MISMATCH, op, f"no {groups} groups of channels", x.shape, hint=hint)
    n, channels, *spatial = x.shape
    split = x.reshape(n, groups, channels // groups, *spatial)
    normal = _standardize(split, tuple(range(2, split.ndim)), eps).reshape(x.shape)
    scaled = normal if weight is None else normal * per_channel(op, weight, x, 1)
    return scaled if bias is None else scaled + per_channel(op, bias, x, 1)


def _standardize(x: Tensor, over: tuple[int, ...], eps: float) -> Tensor:
    """(x − mean) / √(var + eps) over these axes, in the dtype of x; fp16 and bf16 are computed in fp32."""
    wide = x.cast(x.dtype.accumulator)
    centred = wide - wide.mean(over, keepdims=True)
    return (centred * ((centred * centred).mean(over, keepdims=True) + number(eps, "eps")).rsqrt()).cast(x.dtype)


def _last(axes: int, x: Tensor, op: str) -> tuple[int, ...]:
    """The last `axes` axes of x."""
    if not 0 <= integer(axes, "axes") <= x.ndim:
        refuse(Kind.MALFORMED_GRAPH, op, f"there are no {axes} last axes", x.shape, hint=f"axes= from 0 to {x.ndim}")
    return tuple(range(x.ndim - axes, x.ndim))


def _affine(op: str, x: Tensor, weight: Operand | None, bias: Operand | None) -> Tensor:
    """x · weight + bias; both must broadcast to the shape of x."""
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None:
            if is_shape(given):
                hint = f"{op}(x, weight, …), or torch's {op}(x, normalized_shape, weight, …)"
                refuse(Kind.MALFORMED_GRAPH, op, f"a shape stands in place of the {name}", x.shape, hint=hint)
            shape = as_tensor(given).shape
            if broadcast_shape(op, x.shape, shape) != x.shape:
                hint = "the last sizes of x, as many as it runs over"
                refuse(Kind.BROADCAST_MISMATCH, op, f"the {name} is larger than x", x.shape, shape, hint=hint)
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias
