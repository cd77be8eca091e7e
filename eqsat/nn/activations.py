"""Activations, in torch's order of arguments."""

from __future__ import annotations

import math
from typing import SupportsIndex, Unpack

from eqsat.lazy.argument_checks import STAGE, Axis, axis_in, flag, number
from eqsat.lazy.keyword_names import Dim, takes_torchs_names
from eqsat.nn.operands import Operand, floats_of, per_channel, tensor_of
from eqsat.tensor import Tensor, as_tensor, where
from ir.diagnostics import Kind, fail
from ir.dtype import DTypeLike


@takes_torchs_names
def relu(x: Tensor) -> Tensor:
    """max(x, 0)"""
    return as_tensor(x).relu()


@takes_torchs_names
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ)"""
    return floats_of(x).sigmoid()


@takes_torchs_names
def tanh(x: Tensor) -> Tensor:
    return floats_of(x).tanh()


@takes_torchs_names
def silu(x: Tensor) -> Tensor:
    """x · σ(x)"""
    floats = floats_of(x)
    return floats * floats.sigmoid()


@takes_torchs_names
def gelu(x: Tensor, approximate: bool | str = False) -> Tensor:
    """x · Φ(x). approximate: True or "tanh" for the tanh form (Hendrycks & Gimpel, 2016); "none" is False."""
    x = floats_of(x)
    known = {"none": False, "tanh": True}
    if flag(known.get(approximate, approximate) if isinstance(approximate, str) else approximate, "approximate"):
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)).tanh())
    return 0.5 * x * (1 + (x * math.sqrt(0.5)).erf())


@takes_torchs_names
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where x ≥ 0, else slope · x"""
    floats = floats_of(x)
    return where(floats < 0, floats * number(negative_slope, "negative_slope"), floats)


@takes_torchs_names
def prelu(x: Tensor, weight: Operand) -> Tensor:
    """x where x ≥ 0, else weight · x. The weight is one number for all, or one per channel of x [N, C, …]."""
    floats, slope = floats_of(x), tensor_of("prelu", "weight", weight)
    if slope.size != 1:
        if floats.ndim < 2:
            fail(
                Kind.AXIS_SIZE_MISMATCH, STAGE, "x has no channels", op="prelu", hint="x [N, C, …]", shape=floats.shape
            )
        slope = per_channel("prelu", slope, floats, 1, "weight")
    return where(floats < 0, floats * slope.reshape(()) if slope.size == 1 else floats * slope, floats)


@takes_torchs_names
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x ≥ 0, else α (eˣ − 1)"""
    return _exponential_unit(floats_of(x), number(alpha, "alpha"), 1.0)


@takes_torchs_names
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x ≥ 0, else α (e^(x/α) − 1)"""
    factor = number(alpha, "alpha")
    if not factor:
        fail(Kind.MALFORMED_GRAPH, STAGE, "alpha is 0", op="celu", hint="another number")
    return _exponential_unit(floats_of(x), factor, 1 / factor)


@takes_torchs_names
def selu(x: Tensor) -> Tensor:
    """`elu`, scaled so that mean and variance are kept (Klambauer et al., 2017)."""
    return _exponential_unit(floats_of(x), 1.6732632423543772, 1.0) * 1.0507009873554805


@takes_torchs_names
def mish(x: Tensor) -> Tensor:
    """x · tanh(log(1 + eˣ))"""
    floats = floats_of(x)
    return floats * _softplus(floats).tanh()


@takes_torchs_names
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(βx)) / β; x where βx is above the threshold."""
    floats, factor = floats_of(x), number(beta, "beta")
    if not factor:
        fail(Kind.MALFORMED_GRAPH, STAGE, "beta is 0", op="softplus", hint="another number")
    scaled = floats if factor == 1 else floats * factor
    soft = _softplus(scaled) if factor == 1 else _softplus(scaled) * (1 / factor)
    return where(scaled > number(threshold, "threshold"), floats, soft)


@takes_torchs_names
def logsigmoid(x: Tensor) -> Tensor:
    """log σ(x), without overflow."""
    return -_softplus(-floats_of(x))


@takes_torchs_names
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)"""
    floats = floats_of(x)
    return floats / (1 + abs(floats))


@takes_torchs_names
def tanhshrink(x: Tensor) -> Tensor:
    """x − tanh x"""
    floats = floats_of(x)
    return floats - floats.tanh()


@takes_torchs_names
def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x, at least `min_val` and at most `max_val`."""
    return as_tensor(x).clip(number(min_val, "min_val"), number(max_val, "max_val"))


@takes_torchs_names
def relu6(x: Tensor) -> Tensor:
    """x, at least 0 and at most 6."""
    return as_tensor(x).clip(0, 6)


@takes_torchs_names
def hardsigmoid(x: Tensor) -> Tensor:
    """x / 6 + ½, at least 0 and at most 1."""
    return (floats_of(x) + 3).clip(0, 6) * (1 / 6)


@takes_torchs_names
def hardswish(x: Tensor) -> Tensor:
    """x · hardsigmoid(x)"""
    floats = floats_of(x)
    return floats * ((floats + 3).clip(0, 6) * (1 / 6))


@takes_torchs_names
def glu(x: Tensor, axis: SupportsIndex = -1, **torch: Unpack[Dim]) -> Tensor:
    """a · σ(b), where a and b are the halves of x along `axis`."""
    floats = floats_of(x)
    half, gate = floats.split(2, axis=axis_in(axis, floats.shape))
    return half * gate.sigmoid()


@takes_torchs_names
def softmax(x: Tensor, axis: Axis = -1, dtype: DTypeLike | None = None, **torch: Unpack[Dim]) -> Tensor:
    """exp(x − max x) / Σ exp(x − max x) along `axis`; fp16 and bf16 are computed in fp32. dtype: of x, before."""
    return as_tensor(x).softmax(axis, dtype)


@takes_torchs_names
def softmin(x: Tensor, axis: Axis = -1, dtype: DTypeLike | None = None, **torch: Unpack[Dim]) -> Tensor:
    """`softmax` of −x."""
    return (-floats_of(x)).softmax(axis, dtype)


@takes_torchs_names
def log_softmax(x: Tensor, axis: Axis = -1, dtype: DTypeLike | None = None, **torch: Unpack[Dim]) -> Tensor:
    """x − max x − log Σ exp(x − max x) along `axis`; otherwise as `softmax`."""
    return as_tensor(x).log_softmax(axis, dtype)


def _exponential_unit(x: Tensor, alpha: float, rate: float) -> Tensor:
    """x where x ≥ 0, else α (e^(rate · x) − 1)"""
    below = x.minimum(0)
    return where(x < 0, ((below if rate == 1 else below * rate).exp() - 1) * alpha, x)


def _softplus(x: Tensor) -> Tensor:
    """log(1 + eˣ), without overflow."""
    return x.maximum(0) + ((-abs(x)).exp() + 1).log()
