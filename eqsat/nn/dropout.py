"""Dropout."""

from __future__ import annotations

from typing import SupportsIndex

from eqsat import tensor
from eqsat.nn.operands import floats_of
from eqsat.tensor import Tensor


def dropout(x: Tensor, p: float, seed: SupportsIndex | Tensor, offset: SupportsIndex | Tensor = 0) -> Tensor:
    """x · mask / (1 − p): every element is 0 with probability p, and else grows so that the expected value is x.

    The mask is `tensor.dropout_mask(x.shape, p, seed, offset)`: element by element the mask of torch.compile on CPUs
    for this seed and offset. The gradient is dropout of the gradient, with the same seed and offset. Kernels that read
    the mask compute it, where that is no slower than to store it. As in torch, NaN and infinities that are dropped
    become NaN.

    seed, offset: numbers, or tensors of one element that are inputs, so that every call may have another mask.
    """
    floats = floats_of(x)
    if p == 0:
        return floats
    mask = tensor.dropout_mask(floats.shape, p, seed, offset)
    if p == 1:
        return tensor.full(floats.shape, 0.0, floats.dtype)
    return mask.cast(floats.dtype) * floats * (1.0 / (1.0 - p))
