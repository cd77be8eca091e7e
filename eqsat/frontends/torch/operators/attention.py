"""Scaled dot-product attention [B, H, M, D], [B, G, N, D], [B, G, N, D], and its gradients. H is a multiple of G: each
head of keys and values serves H / G heads of queries that follow each other."""

from __future__ import annotations

import math

from eqsat import nn
from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import STAGE
from eqsat.nn.attention import attention_scores
from eqsat.tensor import Tensor, where
from ir.diagnostics import Kind, fail
from ir.dtype import DType


def _rows_with_scores(mask: Tensor | None) -> Tensor | None:
    """The rows [.., M, 1] that the mask does not hide as a whole; None without a mask."""
    if mask is None:
        return None
    greatest = mask.max(-1, keepdims=True)
    return greatest if mask.dtype.is_bool else greatest > -math.inf


def _wide(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Floats in the dtype in which they are summed."""
    return tuple(tensor.cast(tensor.dtype.accumulator) for tensor in tensors)


def _scores(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """`attention_scores`, with a mask of any float dtype."""
    added = mask if mask is None or mask.dtype.is_bool else mask.cast(q.dtype)
    return attention_scores(q, k, v, added, causal, scale)


def _for_queries(keys: Tensor, heads: int) -> Tensor:
    """Keys or values with a head for each head of queries."""
    batch, own, *rest = keys.shape
    if own == heads:
        return keys
    return keys.unsqueeze(2).expand(batch, own, heads // own, *rest).reshape(batch, heads, *rest)


def _of_heads(gradient: Tensor, heads: int) -> Tensor:
    """The gradients of so many heads of keys or values, each the sum over its heads of queries."""
    batch, all_heads, *rest = gradient.shape
    if all_heads == heads:
        return gradient
    return gradient.reshape(batch, heads, all_heads // heads, *rest).sum(2)


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
    heads = query.shape[1]
    q, k, v = _wide(query, _for_queries(key, heads), _for_queries(value, heads))
    scores, rows = _scores(q, k, v, attn_mask, causal, scale), _rows_with_scores(attn_mask)
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
    heads, groups = query.shape[1], key.shape[1]
    q, k, v, dy, wide_y = _wide(query, _for_queries(key, heads), _for_queries(value, heads), gradient, y)
    scores, rows = _scores(q, k, v, attn_mask, causal, scale), _rows_with_scores(attn_mask)
    weights = (scores - total.cast(scores.dtype).unsqueeze(-1)).exp()
    if rows is not None:
        weights = where(rows, weights, 0.0)
    of_value = weights.swapaxes(-1, -2) @ dy
    of_weights = dy @ v.swapaxes(-1, -2) - (dy * wide_y).sum(-1, keepdims=True)
    of_scores = weights * of_weights * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    of_query, of_key = of_scores @ k, of_scores.swapaxes(-1, -2) @ q
    of_keys, of_values = _of_heads(of_key, groups), _of_heads(of_value, groups)
    return of_query.cast(query.dtype), of_keys.cast(key.dtype), of_values.cast(value.dtype)
