"""Scaled dot-product attention."""

from __future__ import annotations

import math

from eqsat.lazy.argument_checks import STAGE, flag, number, refuse
from eqsat.nn.activations import softmax
from eqsat.nn.operands import Operand, tensor_of
from eqsat.tensor import Tensor, iota, where
from ir.diagnostics import Kind, fail


def attention(
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Operand | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v over [..., M, D], [..., N, D], [..., N, Dv]; `causal` hides n > m. A bool mask
    hides where it is False. scale: None is 1/√D."""
    q, k, v = _operands("attention", q, k, v)
    return softmax(attention_scores(q, k, v, mask, causal, scale)) @ v


def scaled_dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch's function of this name: `attention`, in which a row whose scores are all hidden is 0.

    enable_gqa: heads of the query, the axis before M, share those of key and value, whose number divides theirs.

    Raises:
        EqsatError: UnsupportedOp for dropout, which needs a seed.
    """
    op = "scaled_dot_product_attention"
    q, k, v = _operands(op, query, key, value)
    if number(dropout_p, "dropout_p"):
        hint = "nn.dropout(nn.softmax(scores), p, seed) @ v"
        fail(Kind.UNSUPPORTED_OP, STAGE, "dropout within attention is not supported", op=op, hint=hint)
    if flag(enable_gqa, "enable_gqa"):
        k, v = (_shared_heads(op, q, rows) for rows in (k, v))
    scores = attention_scores(q, k, v, attn_mask, is_causal, scale)
    result = softmax(scores) @ v
    if attn_mask is None:
        return result
    hidden = scores.amax(-1, keepdims=True) == -math.inf
    return where(hidden, 0.0, result)


def _operands(op: str, *given: Operand) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (tensor_of(op, name, value) for name, value in zip("qkv", given, strict=True))
    return q, k, v


def _shared_heads(op: str, q: Tensor, x: Tensor) -> Tensor:
    """x with each of its heads as often as heads of the query share it."""
    if q.ndim < 3 or x.ndim != q.ndim or not x.shape[-3] or q.shape[-3] % x.shape[-3]:
        hint = "query […, H, M, D] and key […, G, N, D] with a G that divides H"
        refuse(Kind.AXIS_SIZE_MISMATCH, op, "heads cannot be shared", q.shape, x.shape, hint=hint)
    return x.repeat_interleave(q.shape[-3] // x.shape[-3], -3)


def attention_scores(
    q: Tensor, k: Tensor, v: Tensor, mask: Operand | None, causal: bool, scale: float | None
) -> Tensor:
    """scale · q·kᵀ + mask [..., M, N], −∞ where a score is hidden.

    Raises:
        EqsatError: AxisSizeMismatch for operands that do not fit, DtypeMismatch for a mask of integers.
    """
    matrices = min(q.ndim, k.ndim, v.ndim) >= 2
    if not matrices or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        message = "q, k and v do not fit one another" if matrices else "q, k and v have two axes at least"
        hint = "q […, M, D], k […, N, D], v […, N, Dv]"
        refuse(Kind.AXIS_SIZE_MISMATCH, "attention", message, q.shape, k.shape, v.shape, hint=hint)
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else number(scale, "scale")
    scores = (q @ k.swapaxes(-1, -2)) * factor
    if mask is not None:
        scores = _apply_mask(scores, tensor_of("attention", "mask", mask))
    if flag(causal, "causal"):
        grid = scores.shape[-2:]
        scores = where(iota(grid, 1, "i32") <= iota(grid, 0, "i32"), scores, -math.inf)
    return scores


def _apply_mask(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype.is_bool:
        return where(mask, scores, -math.inf)
    if not mask.dtype.is_float:
        hint = "a mask of bools, True where a score counts, or of floats that are added"
        message = f"a mask of {mask.dtype} could hide scores or be added to them"
        refuse(Kind.DTYPE_MISMATCH, "attention", message, scores.shape, mask.shape, hint=hint)
    return scores + mask
