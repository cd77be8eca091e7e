"""Scaled dot-product attention [B, H, M, D], [B, H, N, D], [B, H, N, D], and its gradients."""

from __future__ import annotations

import math

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import STAGE
from eqsat.tensor import Tensor, iota, where
from ir.diagnostics import Kind, fail
from ir.dtype import DType


def _scores(
    query: Tensor, key: Tensor, causal: bool, mask: Tensor | None, scale: float | None
) -> tuple[Tensor, Tensor | None]:
    """scale · q kᵀ + mask, −∞ where a score is hidden; and which rows [.., M, 1] have a score, None if all have one."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ key.swapaxes(-1, -2)) * factor
    rows = None
    if mask is not None and mask.dtype.is_bool:
        scores, rows = where(mask, scores, -math.inf), mask.max(-1, keepdims=True)
    elif mask is not None:
        scores, rows = scores + mask.cast(scores.dtype), mask.max(-1, keepdims=True) > -math.inf
    if causal:
        grid = scores.shape[-2:]
        scores = where(iota(grid, 1, "i32") <= iota(grid, 0, "i32"), scores, -math.inf)
    return scores, rows


def _wide(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.cast(tensor.dtype.accumulator) for tensor in tensors)


def _check_dropout(probability: float) -> None:
    if probability:
        fail(Kind.UNSUPPORTED_OP, STAGE, "attention with dropout is not supported", dropout=probability)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: float,
    causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
    result: tuple[DType, DType],
) -> tuple[Tensor, Tensor]:
    """The attention, and the logarithm of the sum of exponentials of each row. A row without scores has zeros."""
    _check_dropout(dropout)
    q, k, v = _wide(query, key, value)
    scores, rows = _scores(q, k, causal, attn_mask, scale)
    y = nn.softmax(scores) @ v
    greatest = scores.max(-1, keepdims=True)
    total = (greatest + (scores - greatest).exp().sum(-1, keepdims=True).log()).squeeze(-1)
    if rows is not None:
        y, total = where(rows, y, 0.0), where(rows.squeeze(-1), total, 0.0)
    return y.cast(result[0]), total.cast(result[1])


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def _attention_gradients(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    y: Tensor,
    total: Tensor,
    dropout: float,
    causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """P = exp(scores − total), dV = Pᵀ dY, dS = P · (dY Vᵀ − Σ dY · Y), dQ = scale · dS K, dK = scale · dSᵀ Q."""
    _check_dropout(dropout)
    q, k, v, dy, wide_y = _wide(query, key, value, gradient, y)
    scores, rows = _scores(q, k, causal, attn_mask, scale)
    weights = (scores - total.cast(scores.dtype).unsqueeze(-1)).exp()
    if rows is not None:
        weights = where(rows, weights, 0.0)
    of_value = weights.swapaxes(-1, -2) @ dy
    of_weights = dy @ v.swapaxes(-1, -2) - (dy * wide_y).sum(-1, keepdims=True)
    of_scores = weights * of_weights * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    of_query, of_key = of_scores @ k, of_scores.swapaxes(-1, -2) @ q
    return of_query.cast(query.dtype), of_key.cast(key.dtype), of_value.cast(value.dtype)
