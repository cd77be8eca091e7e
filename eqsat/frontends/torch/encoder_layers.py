"""Decompositions of the operators that torch.nn runs for encoder layers in inference: one operator is a whole layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_OF_SCORES, _OF_KEYS = 0, 1
"""The values that a mask hides: scores [L, L], or keys [B, L]. A mask of any other type has the shape of the scores."""


def encoder_decompositions() -> Mapping[Any, Any]:
    """The decompositions by overload."""
    import torch

    ops = torch.ops.aten
    return {
        ops._transformer_encoder_layer_fwd.default: _encoder_layer,
        ops._native_multi_head_attention.default: _self_attention,
    }


def _encoder_layer(
    x: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    out_weight: Any,
    out_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    up_weight: Any,
    up_bias: Any,
    down_weight: Any,
    down_bias: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """Attention and two linear layers, each with a residual and a norm."""
    from torch.nn.functional import gelu, layer_norm, linear, relu

    def attend(y: Any) -> Any:
        operands = (y, y, y, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, mask)
        return _self_attention(*operands, need_weights=False, mask_type=mask_type)[0]

    def feed_forward(y: Any) -> Any:
        return linear((gelu if use_gelu else relu)(linear(y, up_weight, up_bias)), down_weight, down_bias)

    def norm_1(y: Any) -> Any:
        return layer_norm(y, (width,), norm_weight_1, norm_bias_1, eps)

    def norm_2(y: Any) -> Any:
        return layer_norm(y, (width,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = x + attend(norm_1(x))
        return x + feed_forward(norm_2(x))
    x = norm_1(x + attend(x))
    return norm_2(x + feed_forward(x))


def _self_attention(
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    out_weight: Any,
    out_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """The attention [B, L, width], and its weights [B, L, L] or [B, heads, L, L]; empty weights where nobody needs
    them."""
    import torch
    from torch.nn.functional import linear

    def heads_of(x: Any, weight: Any, bias: Any) -> Any:
        return linear(x, weight, bias).unflatten(-1, (heads, width // heads)).transpose(1, 2)

    q, k, v = map(heads_of, (query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))
    scores = (q / math.sqrt(width // heads)) @ k.transpose(-2, -1)
    if mask is not None:
        hidden = mask.to(torch.bool)
        if mask_type == _OF_KEYS:
            hidden = hidden[:, None, None, :]
        elif mask_type == _OF_SCORES:
            hidden = hidden.view(scores.shape[-2:])
        scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, -1)
    y = linear((weights @ v).transpose(1, 2).flatten(2), out_weight, out_bias)
    if not need_weights:
        return y, query.new_empty(0)
    return y, weights.mean(1) if average_weights else weights
