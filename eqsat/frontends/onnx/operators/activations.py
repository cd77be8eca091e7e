"""Activations."""

from __future__ import annotations

from typing import Literal

from eqsat import nn, tensor
from eqsat.frontends.onnx.operands import known_number, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: list[int] | None = None) -> Tensor:
    return nn.leaky_relu(x, alpha)


@operator("PRelu")
def _relu_by_channel(x: Tensor, slope: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
    """The slope is one number, or one per channel, which is axis 1."""
    factor = slope if slope.size == 1 else slope.reshape((slope.size,) + (1,) * max(0, x.ndim - 2))
    return tensor.where(x < 0, x * factor, x)


@operator("PRelu", since=7)
def _prelu_broadcast(x: Tensor, slope: Tensor) -> Tensor:
    return tensor.where(x < 0, x * slope, x)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: list[int] | None = None) -> Tensor:
    return nn.elu(x, alpha)


@operator("Selu")
def _selu(
    x: Tensor,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
    consumed_inputs: list[int] | None = None,
) -> Tensor:
    return nn.elu(x, alpha) * gamma


@operator("Celu")
def _celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return nn.celu(x, alpha)


@operator("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: list[int] | None = None
) -> Tensor:
    return (x * alpha + beta).maximum(0).minimum(1)


@operator("HardSwish", since=14)
def _hard_swish(x: Tensor) -> Tensor:
    return x * (x * (1 / 6) + 0.5).maximum(0).minimum(1)


def softplus(x: Tensor) -> Tensor:
    """log(1 + eˣ), without overflow."""
    return x.maximum(0) + ((-abs(x)).exp() + 1).log()


@operator("Softplus")
def _softplus(x: Tensor) -> Tensor:
    return softplus(x)


@operator("Softsign")
def softsign(x: Tensor) -> Tensor:
    return nn.softsign(x)


@operator("ThresholdedRelu", since=10)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return tensor.where(x > alpha, x, 0)


@operator("Shrink", since=9)
def _shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    floats = x if x.dtype.is_float else x.cast("fp64")
    shrunk = tensor.where(floats < -lambd, floats + bias, tensor.where(floats > lambd, floats - bias, 0))
    return shrunk.cast(x.dtype)


@operator("Mish", since=18)
def _mish(x: Tensor) -> Tensor:
    return nn.mish(x)


@operator("Swish", since=24)
def _swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * (x * alpha).sigmoid()


@operator("Gelu", since=20)
def _gelu(x: Tensor, *, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    return nn.gelu(x, approximate)


@operator("Gelu", domain="com.microsoft")
def _gelu_of_runtime(x: Tensor) -> Tensor:
    return nn.gelu(x)


@operator("FastGelu", domain="com.microsoft")
def _fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return nn.gelu(x if bias is None else x + bias, "tanh")


@operator("BiasGelu", domain="com.microsoft")
def _bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return nn.gelu(x + bias)


@operator("QuickGelu", domain="com.microsoft")
def _quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return x * (x * alpha).sigmoid()


@operator("Clip")
def _clip_constants(
    x: Tensor, *, min: float | None = None, max: float | None = None, consumed_inputs: list[int] | None = None
) -> Tensor:
    raised = x if min is None else x.maximum(min)
    return raised if max is None else raised.minimum(max)


@operator("Clip", since=11)
def _clip(x: Tensor, least: Tensor | None = None, greatest: Tensor | None = None) -> Tensor:
    raised = x if least is None else x.maximum(least.reshape(()))
    return raised if greatest is None else raised.minimum(greatest.reshape(()))


@operator("Dropout")
def _dropout(
    x: Tensor,
    *,
    ratio: float = 0.5,
    is_test: int = 0,
    consumed_inputs: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """The identity, as in inference, and a mask of ones."""
    return x, tensor.full(x.shape, True, "bool")


@operator("Dropout", since=12)
def _dropout_of_inference(
    x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None, *, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """The identity, as in inference, and a mask of ones; with a ratio of 0 also in training."""
    trains = training is not None and known_number(training, "training_mode")
    if trains and (ratio is None or known_number(ratio, "the ratio")):
        refuse("training mode")
    return x, tensor.full(x.shape, True, "bool")


@operator("Softmax")
def _softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """The axes from `axis` on count as one."""
    return nn.softmax(x, tuple(range(_first(axis, x), x.ndim)))


@operator("Softmax", since=13)
def _softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return nn.softmax(x, axis)


@operator("LogSoftmax")
def _log_softmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """The axes from `axis` on count as one."""
    return nn.log_softmax(x, tuple(range(_first(axis, x), x.ndim)))


@operator("LogSoftmax", since=13)
def _log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return nn.log_softmax(x, axis)


@operator("Hardmax")
def _hardmax_of_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """The axes from `axis` on count as one."""
    first = _first(axis, x)
    flat = x.reshape(*x.shape[:first], -1) if x.size else x
    return _hardmax(flat, axis=-1).reshape(x.shape)


@operator("Hardmax", since=13)
def _hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first maximum along `axis`, else 0."""
    places = tensor.iota(x.shape, axis, "i64")
    hot: Tensor = places == x.argmax(axis_in(axis, x.shape), keepdims=True)
    return hot.cast(x.dtype)


def _first(axis: int, x: Tensor) -> int:
    return x.ndim if axis == x.ndim else axis_in(axis, x.shape)
