"""Building blocks of neural networks on lazy tensors: activations, softmax, convolution, pooling, norms.

A function builds its definition in uops; fusing them into one kernel is the optimizer's work. If a definition divides
or takes a root, integers and bools are cast to fp64 first, as in NumPy.

Arguments have torch's order. Arguments that other libraries order differently are passed by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from eqsat.lazy.argument_checks import STAGE, Axis, axis_in, flag, integer, is_shape, number, pair, refuse, sizes
from eqsat.lazy.promotion import floating
from eqsat.tensor import Tensor, as_tensor, broadcast_shape, constant, iota, where
from ir.diagnostics import Kind, fail

Operand = Tensor | np.ndarray
"""An array becomes a constant."""
Pair = int | Sequence[int]
Padding = int | Sequence[int | Sequence[int]]
"""The same padding on all sides, or per axis one number or (before, after)."""


def relu(x: Tensor) -> Tensor:
    """max(x, 0)"""
    return as_tensor(x).relu()


def silu(x: Tensor) -> Tensor:
    """x · σ(x)"""
    floats = _floats(x)
    return floats * floats.sigmoid()


def gelu(x: Tensor, approximate: bool | str = False) -> Tensor:
    """x · Φ(x). approximate: True or "tanh" for the tanh form (Hendrycks & Gimpel, 2016); "none" is False."""
    x = _floats(x)
    known = {"none": False, "tanh": True}
    if flag(known.get(approximate, approximate) if isinstance(approximate, str) else approximate, "approximate"):
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)).tanh())
    return 0.5 * x * (1 + (x * math.sqrt(0.5)).erf())


def softmax(x: Tensor, axis: Axis = -1) -> Tensor:
    """exp(x − max x) / Σ exp(x − max x) along `axis`; fp16 and bf16 are computed in fp32."""
    floats = _floats(x)
    wide = floats.cast(floats.dtype.accumulator)
    raised = (wide - wide.max(axis, keepdims=True)).exp()
    return (raised / raised.sum(axis, keepdims=True)).cast(floats.dtype)


def log_softmax(x: Tensor, axis: Axis = -1) -> Tensor:
    """x − max x − log Σ exp(x − max x) along `axis`."""
    floats = _floats(x)
    wide = floats.cast(floats.dtype.accumulator)
    centred = wide - wide.max(axis, keepdims=True)
    return (centred - centred.exp().sum(axis, keepdims=True).log()).cast(floats.dtype)


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
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, axes: int = 1
) -> Tensor:
    """(x − mean) / √(var + eps) · weight + bias over the last `axes` axes. Also accepts torch's call,
    `layer_norm(x, normalized_shape, weight, bias, eps)`."""
    floats = _floats(x)
    over = _last(axes, floats, "layer_norm")
    wide = floats.cast(floats.dtype.accumulator)
    centred = wide - wide.mean(over, keepdims=True)
    normal = centred * ((centred * centred).mean(over, keepdims=True) + number(eps, "eps")).rsqrt()
    return _affine("layer_norm", normal.cast(floats.dtype), weight, bias)


@_with_torchs_shape
def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, axes: int = 1) -> Tensor:
    """x / √(mean x² + eps) · weight over the last `axes` axes (Zhang & Sennrich, 2019). Also accepts torch's call,
    `rms_norm(x, normalized_shape, weight, eps)`."""
    floats = _floats(x)
    over = _last(axes, floats, "rms_norm")
    wide = floats.cast(floats.dtype.accumulator)
    normal = wide * ((wide * wide).mean(over, keepdims=True) + number(eps, "eps")).rsqrt()
    return _affine("rms_norm", normal.cast(floats.dtype), weight, None)


def batch_norm(
    x: Tensor,
    *ordered: Tensor,
    mean: Tensor | None = None,
    var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
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
    return x * _per_channel("batch_norm", scale, x, place) + _per_channel("batch_norm", shift, x, place)


def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """x / (bias + alpha/size · Σ x²)^beta over `size` neighbouring channels of x [N, C, …] (Krizhevsky 2012)."""
    x = _floats(x)
    if integer(size, "size") < 1 or x.ndim < 2:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"no window of {size} channels", op="local_response_norm", shape=x.shape)
    before = (size - 1) // 2
    around = (x * x).swapaxes(1, -1).pad([(0, 0)] * (x.ndim - 1) + [(before, size - 1 - before)])
    windows = Tensor("POOL", [around], {"kernel": (size,), "stride": (1,), "dilation": (1,)})
    scale = number(alpha, "alpha") / size
    return x * (windows.sum(-1).swapaxes(1, -1) * scale + number(bias, "bias")) ** -number(beta, "beta")


def conv2d(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of x [N, Cin, H, W] with weight [Cout, Cin / groups, Kh, Kw] (seed 002 §5.2).

    `padding` is one number, or per axis one number or a (before, after) pair.
    """
    x, weight = _image(x, "conv2d"), as_tensor(weight)
    if integer(groups, "groups") < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{groups} groups", op="conv2d")
    if weight.ndim != 4 or x.shape[1] != groups * weight.shape[1] or weight.shape[0] % groups:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            "conv2d takes x [N, groups·Cin, H, W] and weight [groups·Cout, Cin, Kh, Kw]",
            op="conv2d",
            shapes=[list(x.shape), list(weight.shape)],
            groups=groups,
        )
    (n, _, _, _), (c_out, c_in, kh, kw) = x.shape, weight.shape
    windows = _windows(x.pad([(0, 0), (0, 0), *_padding(padding)]), (kh, kw), stride, dilation)
    oy, ox = windows.shape[2:4]
    r_out = c_out // groups
    full = (n, groups, r_out, oy, ox, c_in, kh, kw)
    patches = windows.reshape(n, groups, c_in, 1, oy, ox, kh, kw).expand(n, groups, c_in, r_out, oy, ox, kh, kw)
    filters = weight.reshape(1, groups, r_out, 1, 1, c_in, kh, kw).expand(*full)
    products = patches.permute(0, 1, 3, 4, 5, 2, 6, 7) * filters
    summed = products.sum((5, 6, 7), dtype=products.dtype).reshape(n, c_out, oy, ox)
    return summed if bias is None else summed + _per_channel("conv2d", bias, summed, 1)


def max_pool2d(
    x: Tensor,
    kernel: Pair,
    stride: Pair | None = None,
    padding: Padding = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The maximum of each window of x [N, C, H, W]; padding never wins. torch's `ceil_mode` is refused."""
    x = _image(x, "max_pool2d")
    _refuse_ceil_mode(ceil_mode, x, "max_pool2d")
    around = x.pad([(0, 0), (0, 0), *_padding(padding)], x.dtype.lowest)
    return _windows(around, kernel, kernel if stride is None else stride, dilation).max((-2, -1))


def avg_pool2d(
    x: Tensor,
    kernel: Pair,
    stride: Pair | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of x [N, C, H, W]; without `count_include_pad`, padded elements do not count. torch's
    `ceil_mode` is refused."""
    x = _floats(_image(x, "avg_pool2d"))
    _refuse_ceil_mode(ceil_mode, x, "avg_pool2d")
    step = kernel if stride is None else stride
    widths = [(0, 0), (0, 0), *_padding(padding)]
    windows = _windows(x.pad(widths), kernel, step, 1)
    total = windows.sum((-2, -1))
    if flag(count_include_pad, "count_include_pad") or not any(map(any, widths)):
        return total * (1 / math.prod(windows.shape[-2:]))
    ones = constant(1.0, x.dtype).expand(1, 1, *x.shape[2:])
    return total / _windows(ones.pad(widths), kernel, step, 1).sum((-2, -1))


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Operand | None = None, causal: bool = False) -> Tensor:
    """softmax(q·kᵀ/√d + mask)·v over [..., M, D], [..., N, D], [..., N, Dv]; `causal` hides n > m. A bool mask hides
    where it is False."""
    q, k, v = (as_tensor(operand) for operand in (q, k, v))
    matrices = min(q.ndim, k.ndim, v.ndim) >= 2
    if not matrices or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        message = "q, k and v do not fit one another" if matrices else "q, k and v have two axes at least"
        hint = "q […, M, D], k […, N, D], v […, N, Dv]"
        refuse(Kind.AXIS_SIZE_MISMATCH, "attention", message, q.shape, k.shape, v.shape, hint=hint)
    scores = (q @ k.swapaxes(-1, -2)) * (1 / math.sqrt(max(q.shape[-1], 1)))
    if mask is not None:
        scores = _apply_mask(scores, as_tensor(mask))
    if flag(causal, "causal"):
        grid = scores.shape[-2:]
        scores = where(iota(grid, 1, "i32") <= iota(grid, 0, "i32"), scores, -math.inf)
    return softmax(scores) @ v


def _apply_mask(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype.is_bool:
        return where(mask, scores, -math.inf)
    if not mask.dtype.is_float:
        hint = "a mask of bools, True where a score counts, or of floats that are added"
        message = f"a mask of {mask.dtype} could hide scores or be added to them"
        refuse(Kind.DTYPE_MISMATCH, "attention", message, scores.shape, mask.shape, hint=hint)
    return scores + mask


def _last(axes: int, x: Tensor, op: str) -> tuple[int, ...]:
    """The last `axes` axes of x."""
    if not 0 <= integer(axes, "axes") <= x.ndim:
        refuse(Kind.MALFORMED_GRAPH, op, f"there are no {axes} last axes", x.shape, hint=f"axes= from 0 to {x.ndim}")
    return tuple(range(x.ndim - axes, x.ndim))


def _affine(op: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
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


def _per_channel(op: str, value: Operand, x: Tensor, axis: int) -> Tensor:
    """`value`, one number per channel of x or one for all, reshaped to broadcast with x."""
    value = as_tensor(value)
    if value.size not in (1, x.shape[axis]):
        hint = f"{x.shape[axis]} numbers, or one for all"
        refuse(Kind.BROADCAST_MISMATCH, op, "there is not one number per channel", x.shape, value.shape, hint=hint)
    return value.reshape(-1 if value.size else 0, *(1,) * (x.ndim - axis - 1))


def _refuse_ceil_mode(ceil_mode: bool, x: Tensor, op: str) -> None:
    if flag(ceil_mode, "ceil_mode"):
        hint = "a greater padding after the image: padding=((top, bottom), (left, right))"
        refuse(Kind.UNSUPPORTED_OP, op, "ceil_mode is not supported", x.shape, hint=hint)


def _floats(x: Tensor) -> Tensor:
    """The tensor; integers and bools are cast to fp64."""
    x = as_tensor(x)
    return x.cast(floating(x.dtype))


def _image(x: Tensor, op: str) -> Tensor:
    """The tensor, after a check that it is [N, C, H, W]."""
    x = as_tensor(x)
    if x.ndim != 4:
        refuse(Kind.AXIS_SIZE_MISMATCH, op, "x must be [N, C, H, W]", x.shape, hint="reshape or unsqueeze it")
    return x


def _windows(x: Tensor, kernel: Pair, stride: Pair, dilation: Pair) -> Tensor:
    given = {"kernel": kernel, "stride": stride, "dilation": dilation}
    return Tensor("POOL", [x], {name: pair(value, name) for name, value in given.items()})


def _padding(padding: Padding) -> list[tuple[int, int]]:
    """(before, after) of both axes."""
    both = padding if isinstance(padding, list | tuple) else (padding, padding)
    return [pair(widths, "padding") for widths in both]
