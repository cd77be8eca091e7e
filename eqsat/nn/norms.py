"""Norms: over the last axes, per channel, per group of channels, and over neighbouring channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from eqsat.lazy.argument_checks import STAGE, Sizes, axis_in, flag, integer, is_shape, number, refuse, sizes
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import Operand, floats_of, per_channel, tensor_of
from eqsat.tensor import Tensor, as_tensor
from ir.diagnostics import Kind, fail


def _split_shape(op: str, x: Operand, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> _Call:
    """The arguments behind x of a call with or without torch's `normalized_shape`, which gives the number of axes. A
    list of whole numbers is taken for a shape, not for a weight."""
    rest, named = list(arguments), dict(keywords)
    if "normalized_shape" not in named and not (rest and is_shape(rest[0])):
        return _Call(rest, named, None)
    shape = named.pop("normalized_shape") if "normalized_shape" in named else rest.pop(0)
    wanted, shape_of_x = sizes(shape, "normalized_shape"), tensor_of(op, "x", x).shape
    if not wanted or shape_of_x[-len(wanted) :] != wanted:
        message = "the normalized shape is no end of the shape of x"
        hint = f"the last sizes of x; {op}(x, weight, axes=…) takes their number alone"
        refuse(Kind.AXIS_SIZE_MISMATCH, op, message, shape_of_x, wanted, hint=hint)
    return _Call(rest, named, len(wanted))


class _Call(NamedTuple):
    """The arguments of a norm without the shape. axes: the number of axes that the shape names, None without one."""

    arguments: list[Any]
    keywords: dict[str, Any]
    axes: int | None


@overload
def layer_norm(
    x: Tensor, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5, axes: int = 1
) -> Tensor: ...


@overload
def layer_norm(
    x: Tensor,
    normalized_shape: Sizes,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
) -> Tensor: ...


@takes_torchs_names
def layer_norm(x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
    """(x − mean) / √(var + eps) · weight + bias over the last `axes` axes, or over those of torch's
    `normalized_shape`. Weight and bias have the sizes of these axes, or of the last of them."""
    call = _split_shape("layer_norm", x, arguments, keywords)
    axes: dict[str, Any] = {} if call.axes is None else {"axes": call.axes}
    return _layer_norm(x, *call.arguments, **{**call.keywords, **axes})


@takes_torchs_names
def _layer_norm(
    x: Tensor, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5, axes: int = 1
) -> Tensor:
    floats = floats_of(tensor_of("layer_norm", "x", x))
    over = _last(axes, floats, "layer_norm")
    return _affine("layer_norm", _standardize(floats, over, eps), len(over), weight, bias)


@overload
def rms_norm(x: Tensor, weight: Operand | None = None, eps: float | None = None, axes: int = 1) -> Tensor: ...


@overload
def rms_norm(x: Tensor, normalized_shape: Sizes, weight: Operand | None = None, eps: float | None = None) -> Tensor: ...


@takes_torchs_names
def rms_norm(x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
    """x / √(mean x² + eps) · weight over the last `axes` axes (Zhang & Sennrich, 2019), or over those of torch's
    `normalized_shape`. Without a number, eps is 1e-6; with a `normalized_shape` torch's: the machine epsilon of
    fp32, or of fp64 for fp64."""
    call = _split_shape("rms_norm", x, arguments, keywords)
    if call.axes is None:
        return _rms_norm(x, *call.arguments, **call.keywords)
    torchs: dict[str, Any] = {"axes": call.axes, "least": _machine_epsilon(x)}
    return _rms_norm(x, *call.arguments, **{**call.keywords, **torchs})


@takes_torchs_names
def _rms_norm(
    x: Tensor, weight: Operand | None = None, eps: float | None = None, axes: int = 1, least: float = 1e-6
) -> Tensor:
    floats = floats_of(tensor_of("rms_norm", "x", x))
    over = _last(axes, floats, "rms_norm")
    wide = floats.cast(floats.dtype.accumulator)
    epsilon = least if eps is None else number(eps, "eps")
    normal = wide * ((wide * wide).mean(over, keepdims=True) + epsilon).rsqrt()
    return _affine("rms_norm", normal.cast(floats.dtype), len(over), weight, None)


def _machine_epsilon(x: Operand) -> float:
    return float(np.finfo(floats_of(as_tensor(x)).dtype.accumulator.numpy).eps)


@takes_torchs_names
def batch_norm(
    x: Tensor,
    *ordered: Tensor,
    mean: Tensor | None = None,
    var: Tensor | None = None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    axis: int = 1,
) -> Tensor:
    """Inference: (x − mean) / √(var + eps) · weight + bias per channel, as one scale and one shift.

    Statistics and weights have one number per channel, and are passed by name; torch's names are `running_mean` and
    `running_var`. `momentum` is for training alone, which is refused: a program changes no statistics.
    """
    number(momentum, "momentum")
    if flag(training, "training"):
        hint = "x.mean(axes) and x.var(axes, correction=0) as mean= and var="
        fail(Kind.UNSUPPORTED_OP, STAGE, "a program changes no running statistics", op="batch_norm", hint=hint)
    if ordered or mean is None or var is None:
        hint = "mean=, var=, weight= and bias= by name: torch has them in this order, ONNX in another"
        refuse(Kind.MALFORMED_GRAPH, "batch_norm", "pass statistics and weights by name", as_tensor(x).shape, hint=hint)
    x = tensor_of("batch_norm", "x", x)
    place = axis_in(axis, x.shape)
    for name, given in (("mean", mean), ("var", var), ("weight", weight), ("bias", bias)):
        if given is not None:
            per_channel("batch_norm", given, x, place, name)
    scale = (as_tensor(var) + number(eps, "eps")).rsqrt()
    scale = scale if weight is None else as_tensor(weight) * scale
    shift = -as_tensor(mean) * scale if bias is None else bias - mean * scale
    return x * per_channel("batch_norm", scale, x, place) + per_channel("batch_norm", shift, x, place)


@takes_torchs_names
def group_norm(
    x: Tensor, num_groups: int, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5
) -> Tensor:
    """(x − mean) / √(var + eps) · weight + bias over each group of channels of x [N, C, …] and its spatial axes (Wu &
    He, 2018). Weight and bias have one number per channel."""
    return _grouped("group_norm", floats_of(x), num_groups, weight, bias, eps)


@takes_torchs_names
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


@takes_torchs_names
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, *, before: int | None = None
) -> Tensor:
    """x / (k + alpha/size · Σ x²)^beta over `size` neighbouring channels of x [N, C, …] (Krizhevsky 2012).

    before: how many of them stand before the channel. None is torch's size // 2; ONNX has (size − 1) // 2.
    """
    x = floats_of(x)
    if integer(size, "size") < 1 or x.ndim < 2:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"no window of {size} channels", op="local_response_norm", shape=x.shape)
    before = size // 2 if before is None else integer(before, "before")
    around = (x * x).swapaxes(1, -1).pad([(0, 0)] * (x.ndim - 1) + [(before, size - 1 - before)])
    windows = Tensor("POOL", [around], {"kernel": (size,), "stride": (1,), "dilation": (1,)})
    scale = number(alpha, "alpha") / size
    return x / (windows.sum(-1).swapaxes(1, -1) * scale + number(k, "k")) ** number(beta, "beta")


def _grouped(op: str, x: Tensor, groups: int, weight: Operand | None, bias: Operand | None, eps: float) -> Tensor:
    """x [N, C, …], standardized over each group of channels, times the weight plus the bias of each channel."""
    if x.ndim < 2 or integer(groups, "num_groups") < 1 or x.shape[1] % groups:
        hint = "x [N, C, …] with a C that the number of groups divides"
        refuse(Kind.AXIS_SIZE_MISMATCH, op, f"no {groups} groups of channels", x.shape, hint=hint)
    n, channels, *spatial = x.shape
    split = x.reshape(n, groups, channels // groups, *spatial)
    normal = _standardize(split, tuple(range(2, split.ndim)), eps).reshape(x.shape)
    scaled = normal if weight is None else normal * per_channel(op, weight, x, 1, "weight")
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


def _affine(op: str, x: Tensor, axes: int, weight: Operand | None, bias: Operand | None) -> Tensor:
    """x · weight + bias; both have the sizes of the last axes of x, of `axes` of them at most."""
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None:
            if is_shape(given):
                hint = f"{op}(x, weight, …), or torch's {op}(x, normalized_shape, weight, …)"
                refuse(Kind.MALFORMED_GRAPH, op, f"a shape stands in place of the {name}", x.shape, hint=hint)
            shape = tensor_of(op, name, given).shape
            if not 0 < len(shape) <= axes or x.shape[-len(shape) :] != shape:
                hint = f"the last sizes of x, as many as it runs over: {list(x.shape[x.ndim - axes :])}"
                refuse(Kind.BROADCAST_MISMATCH, op, f"the {name} does not fit x", x.shape, shape, hint=hint)
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias
