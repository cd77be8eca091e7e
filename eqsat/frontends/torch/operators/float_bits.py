"""Functions of the bits of floats."""

from __future__ import annotations

import math

from eqsat.frontends.elementary import is_negative
from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import pointwise
from eqsat.lazy.order_keys import integers_in_order
from eqsat.tensor import Tensor, where
from ir.dtype import DTYPES, i32


@pointwise("nextafter", promotion="no_opmath", operands=2)
def _next_float(x: Tensor, y: Tensor) -> Tensor:
    """The float beside x on the side of y; y where they are equal. All of it is exact, denormals too: the bits of a
    float are one more or one less than those of its neighbour."""
    word = DTYPES[f"i{x.dtype.bits}"]
    here, there = integers_in_order(x), integers_in_order(y)
    moved = where(here < there, here + 1, here - 1)
    is_below_zero = (moved < 0) | ((moved == 0) & is_negative(x))
    size = abs(moved)
    bits = where(is_below_zero, size | int(word.lowest), size)
    is_nan = (x != x) | (y != y)
    beside = where(here == there, y.bitcast(word), bits).bitcast(x.dtype)
    return where(is_nan, math.nan, beside)


@aten("frexp.Tensor")
def _fraction_and_exponent(x: Tensor) -> tuple[Tensor, Tensor]:
    """x = fraction · 2^exponent with 0.5 ≤ |fraction| < 1, and the exponent as i32; exponent 0 for 0, infinities and
    NaN. A denormal number has the bits of a whole number of its least steps, whose float is not denormal."""
    word, digits = DTYPES[f"i{x.dtype.bits}"], _FRACTION_BITS[x.dtype.name]
    bias = (1 << (x.dtype.bits - digits - 2)) - 1
    size = x.bitcast(word) & int(word.highest)
    is_denormal = size < 1 << digits
    normal = where(is_denormal, size.cast(x.dtype).bitcast(word), size)
    exponent = (normal >> digits) - (bias - 1) - where(is_denormal, bias + digits - 1, 0)
    is_special = (normal == 0) | (size >= (2 * bias + 1) << digits)
    half = (normal & ((1 << digits) - 1)) | ((bias - 1) << digits)
    signed = where(is_special, x.bitcast(word), half | (x.bitcast(word) & int(word.lowest)))
    return signed.bitcast(x.dtype), where(is_special, 0, exponent).cast(i32)


_FRACTION_BITS = {"fp16": 10, "bf16": 7, "fp32": 23, "fp64": 52}
"""The number of bits of a float behind its exponent."""
