"""Dropout."""

from __future__ import annotations

from typing import SupportsIndex

from eqsat import tensor
from eqsat.lazy.argument_checks import STAGE, flag, number
from eqsat.lazy.keyword_names import takes_torchs_names
from eqsat.nn.operands import floats_of, tensor_of
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail


@takes_torchs_names
def dropout(
    x: Tensor,
    p: float = 0.5,
    seed: SupportsIndex | Tensor | None = None,
    offset: SupportsIndex | Tensor = 0,
    training: bool = True,
) -> Tensor:
    """x · mask / (1 − p): every element is 0 with probability p, and else grows so that the expected value is x.

    The mask is `tensor.dropout_mask(x.shape, p, seed, offset)`: element by element the mask of torch.compile on CPUs
    for this seed and offset. The gradient is dropout of the gradient, with the same seed and offset. Kernels that read
    the mask compute it, where that is no slower than to store it. As in torch, NaN and infinities that are dropped
    become NaN.

    seed, offset: numbers, or tensors of one element that are inputs, so that every call may have another mask. Without
        a seed, only a dropout that does nothing is defined.
    training: False returns x. True or False in place of the seed is torch's `training`.
    """
    if isinstance(seed, bool):
        training, seed = seed, None
    chance = number(p, "p")
    floats = floats_of(tensor_of("dropout", "x", x))
    if not flag(training, "training") or chance == 0:
        return floats
    if seed is None:
        hint = 'nn.dropout(x, p, tensor.input("seed", (), "i64")), or training=False'
        fail(Kind.MALFORMED_GRAPH, STAGE, "a program has no generator: dropout needs a seed", op="dropout", hint=hint)
    mask = tensor.dropout_mask(floats.shape, p, seed, offset)
    if chance == 1:
        return tensor.full(floats.shape, 0.0, floats.dtype)
    return mask.cast(floats.dtype) * floats * (1.0 / (1.0 - p))
