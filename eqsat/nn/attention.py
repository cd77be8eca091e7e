"""Scaled dot-product attention."""

from __future__ import annotations

import math

from eqsat.lazy.argument_checks import flag, refuse
from eqsat.nn.activations import softmax
from eqsat.nn.operands import Operand
from eqsat.tensor import Tensor, as_tensor, iota, where
from ir.diagnostics import Kind


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
