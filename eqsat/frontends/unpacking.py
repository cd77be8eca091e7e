"""Integers of less than 8 bits, which models store several to a byte."""

from __future__ import annotations

from eqsat import tensor
from eqsat.tensor import Tensor


def unpack(x: Tensor, bits: int, signed: bool = False) -> Tensor:
    """The integers of `bits` bits (1, 2, 4 or 8) in the bytes x [..., n], as u8 or i8 [..., n · 8 / bits]: those in the
    low bits of a byte come first. A kernel that reads the result can do so from the bytes."""
    if bits < 8:
        count = 8 // bits
        shifts = tensor.iota((count,), 0, "u8") * bits
        x = ((x.unsqueeze(-1) >> shifts) & ((1 << bits) - 1)).reshape(*x.shape[:-1], x.shape[-1] * count)
    if not signed:
        return x
    half = 1 << (bits - 1)  # the sign: flipping it and taking it away leaves numbers below it as they are
    return (x ^ half).cast("i8") - half if bits < 8 else x.bitcast("i8")
