"""Sums of exponentials that are kept relative to the greatest score so far, which may be none or infinite.

The online form is that of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

import math

from ir.kernel.gpu.nodes import Call, Value
from ir.kernel.nodes import Const


def base_of(top: Value) -> Value:
    """The number that is subtracted from scores: their maximum, or 0 where all are -inf."""
    none = Call("cmpeq", (top, Const("-inf", top.dtype)), "bool")
    return Call("where", (none, Const(0.0, top.dtype), top), top.dtype)


NEAR = 2.0**12
"""Exponents up to which `near_weight` is within 2⁻¹³ units of the exponent."""


def weight(fn: str, score: Value, base: Value) -> Value:
    """fn(score - base)."""
    return Call(fn, (Call("sub", (score, base), score.dtype),), score.dtype)


def steepness(fn: str, factor: float = 1.0) -> float:
    """The number a for which fn(x·factor) = 2^(x·a)."""
    return factor * (math.log2(math.e) if fn == "exp" else 1.0)


def coarse_weight(score: Value, base: Value, steep: float) -> Value:
    """2^((score - base)·steep), for weights that are rounded to 16 bits: off by |x| units in the last place of an
    exponent x, and 0 below 2^-126."""
    apart = Call("sub", (score, base), score.dtype)
    return Call("exp2_approx", (Call("mul", (apart, Const(steep, score.dtype)), score.dtype),), score.dtype)


def near_weight(score: Value, shift: Value, steep: float) -> Value:
    """The same, where `shift` is -base·steep, between -NEAR and NEAR: one multiply-add gives the exponent."""
    exponent = Call("fma", (score, Const(steep, score.dtype), shift), score.dtype)
    return Call("exp2_approx", (exponent,), score.dtype)


def shift_of(base: Value, steep: float) -> Value:
    """-base·steep, rounded."""
    return Call("mul", (base, Const(-steep, base.dtype)), base.dtype)


def undefined_term(top: Value) -> Value:
    """0, but NaN where `top` is infinite: added to a sum whose maximum is `top`."""
    return Call("sub", (top, top), top.dtype)
