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


def weight(fn: str, score: Value, base: Value, *, coarse: bool = False) -> Value:
    """fn(score - base). `coarse`: eˣ as 2^(x·log₂e), off by |x| units in the last place, for weights that are rounded
    to 16 bits."""
    apart = Call("sub", (score, base), score.dtype)
    if coarse and fn == "exp":
        return Call("exp2", (Call("mul", (apart, Const(math.log2(math.e), score.dtype)), score.dtype),), score.dtype)
    return Call(fn, (apart,), score.dtype)


def undefined_term(top: Value) -> Value:
    """0, but NaN where `top` is infinite: added to a sum whose maximum is `top`."""
    return Call("sub", (top, top), top.dtype)
