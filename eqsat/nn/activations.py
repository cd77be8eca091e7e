"""Activations and softmax."""

from __future__ import annotations

import math

from eqsat.lazy.argument_checks import Axis, flag
from eqsat.nn.operands import floats_of
from eqsat.tensor import Tensor, as_tensor


def relu(x: Tensor) -> Tensor:
    """max(x, 0)"""
    return as_tensor(x).relu()


def silu(x: Tensor) -> Tensor:
    """x · σ(x)"""
    floats = floats_of(x)
    return floats * floats.sigmoid()


def gelu(x: Tensor, approximate: bool | str = False) -> Tensor:
    """x · Φ(x). approximate: True or "tanh" for the tanh form (Hendrycks & Gimpel, 2016); "none" is False."""
    x = floats_of(x)
    known = {"none": False, "tanh": True}
    if flag(known.get(approximate, approximate) if isinstance(approximate, str) else approximate, "approximate"):
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)).tanh())
    return 0.5 * x * (1 + (x * math.sqrt(0.5)).erf())


def softmax(x: Tensor, axis: Axis = -1) -> Tensor:
    """exp(x − max x) / Σ exp(x − max x) along `axis`; fp16 and bf16 are computed in fp32."""
    floats = floats_of(x)
    wide = floats.cast(floats.dtype.accumulator)
    raised = (wide - wide.max(axis, keepdims=True)).exp()
    return (raised / raised.sum(axis, keepdims=True)).cast(floats.dtype)


def log_softmax(x: Tensor, axis: Axis = -1) -> Tensor:
    """x − max x − log Σ exp(x − max x) along `axis`."""
    floats = floats_of(x)
    wide = floats.cast(floats.dtype.accumulator)
    centred = wide - wide.max(axis, keepdims=True)
    return (centred - centred.exp().sum(axis, keepdims=True).log()).cast(floats.dtype)
