"""The attention operators of onnxruntime (domain com.microsoft), which exporters of transformers leave behind."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eqsat import tensor
from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.attention import merge_heads, split_heads
from eqsat.frontends.onnx.operators.runtime_quantization import integer_product_to_float
from eqsat.nn import attention
from eqsat.tensor import Tensor

DOMAIN = "com.microsoft"


@operator("Attention", domain=DOMAIN)
def _attention(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    scores_bias: Tensor | None = None,
    past_length: Tensor | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    qkv_hidden_sizes: list[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> Tensor:
    """x [B, L, in] times weight [in, q + k + v], then attention per head."""
    if past is not None or do_rotary:
        refuse("a past state or a rotary embedding in com.microsoft.Attention")
    projected = x @ weight if bias is None else x @ weight + bias
    q, k, v = split_projection(projected, qkv_hidden_sizes)
    return attend(q, k, v, num_heads, scale, bool(unidirectional), mask, scores_bias, mask_filter_value)


@operator("QAttention", domain=DOMAIN)
def _quantized_attention(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    weight_scale: Tensor,
    mask: Tensor | None = None,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    past: Tensor | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> Tensor:
    """Attention whose operands x and weight are bytes, with a scale and a zero point for each column of the weight."""
    if past is not None or do_rotary:
        refuse("a past state or a rotary embedding in QAttention")
    projected = integer_product_to_float(x, weight, x_scale, weight_scale, x_zero, weight_zero, bias)
    q, k, v = split_projection(projected.cast(bias.dtype), None)
    return attend(q, k, v, num_heads, scale, bool(unidirectional), mask, None, mask_filter_value)


def split_projection(projected: Tensor, widths: Sequence[int] | None) -> tuple[Tensor, ...]:
    """q, k and v, which lie beside each other. widths: theirs, if they are not the same."""
    each = widths or [projected.shape[-1] // 3] * 3
    ends = [sum(each[: place + 1]) for place in range(3)]
    return tuple(projected[..., end - width : end] for end, width in zip(ends, each, strict=True))


@operator("MultiHeadAttention", domain=DOMAIN)
def _multi_head_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    scores_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
) -> Tensor:
    """q, k and v [B, L, heads · size], with one bias for the three."""
    if past_key is not None or past_value is not None:
        refuse("a past state in MultiHeadAttention")
    if q.ndim != 3 or k.ndim != 3 or v.ndim != 3:
        refuse("MultiHeadAttention of packed operands")
    if bias is not None:
        width = q.shape[-1]
        q, k, v = q + bias[:width], k + bias[width : 2 * width], v + bias[2 * width :]
    return attend(q, k, v, num_heads, scale, bool(unidirectional), mask, scores_bias, mask_filter_value)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: int,
    scale: float | None,
    causal: bool,
    mask: Tensor | None,
    scores_bias: Tensor | None,
    hidden: float,
) -> Tensor:
    """softmax(q·kᵀ·scale + bias)·v per head. mask: [B, keys], 0 where a key is hidden; or [B], the number of keys.
    hidden: the number that is added to hidden scores."""
    queries, keys, values = (split_heads(rows, heads) for rows in (q, k, v))
    if scale:
        queries = queries * (scale * math.sqrt(queries.shape[-1]))
    added = scores_bias
    if mask is not None:
        visible = _visible_keys(mask, k.shape[0], k.shape[1])
        punished = tensor.where(visible, 0.0, hidden).cast(q.dtype).reshape(k.shape[0], 1, 1, k.shape[1])
        added = punished if added is None else added + punished
    return merge_heads(attention(queries, keys, values, added, causal))


def _visible_keys(mask: Tensor, batch: int, length: int) -> Tensor:
    """[batch, length], true where a key counts."""
    if mask.shape == (batch, length):
        visible: Tensor = mask != 0
    elif mask.shape == (batch,):
        visible = tensor.iota((batch, length), 1, "i64") < mask.cast("i64").reshape(batch, 1)
    else:
        refuse(f"a mask of the shape {list(mask.shape)}", hint=f"[{batch}] or [{batch}, {length}]")
    return visible


@operator("RotaryEmbedding", domain=DOMAIN)
def _rotary_embedding(
    x: Tensor,
    positions: Tensor,
    cosines: Tensor,
    sines: Tensor,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """Turns pairs of x [B, heads, L, D] or [B, L, heads · D] by the angles of their positions, [B, L] or the first."""
    if is_packed_batching or scale != 1.0:
        refuse("a packed or scaled RotaryEmbedding")
    turned = cosines.shape[1] * 2
    heads = num_heads or (x.shape[2] // turned if x.ndim == 3 else 0)
    split = split_heads(x, heads) if x.ndim == 3 else x
    batch, _, length, _ = split.shape
    places = positions.cast("i64")
    if positions.size == 1 and (batch, length) != (1, 1):
        places = tensor.iota((batch, length), 1, "i64") + places.reshape(1, 1)
    whole = rotate(split, cosines, sines, places.reshape(batch, length), bool(interleaved))
    return merge_heads(whole) if x.ndim == 3 else whole


def rotate(x: Tensor, cosines: Tensor, sines: Tensor, places: Tensor, interleaved: bool) -> Tensor:
    """Turns pairs of x [B, heads, L, D] by the angles of their places [B, L] in the tables [places, pairs]."""
    turned = cosines.shape[1] * 2
    angles = [table.take(places, 0).unsqueeze(1) for table in (cosines, sines)]
    moved, still = x[..., :turned], x[..., turned:]
    if interleaved:
        one, other = moved[..., 0::2], moved[..., 1::2]
    else:
        one, other = moved[..., : turned // 2], moved[..., turned // 2 :]
    pair = [one * angles[0] - other * angles[1], one * angles[1] + other * angles[0]]
    if interleaved:
        joined = tensor.stack(pair, -1).reshape(moved.shape)
    else:
        joined = tensor.concatenate(pair, -1)
    return tensor.concatenate([joined, still], -1) if still.shape[-1] else joined
