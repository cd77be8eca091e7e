"""ONNX's attention, with caches, groups of heads and masks, and linear attention."""

from __future__ import annotations

import math
from typing import Literal

from eqsat import nn, tensor
from eqsat.frontends.onnx.element_types import element_type
from eqsat.frontends.onnx.operands import malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.stepping import State, run_steps
from eqsat.tensor import Tensor
from ir.dtype import fp32


@operator("Attention", since=23)
def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    q_num_heads: int | None = None,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(q·kᵀ·scale + mask)·v over [B, H, L, D], or [B, L, H·D] with the numbers of heads.

    lengths: how many keys of each batch count. Also returns the keys and values with the past ones, and the scores:
    raw (0), after the soft cap (1), after the mask (2), or as probabilities (3). A query that may see no key gives 0.
    """
    flat = q.ndim == 3
    if flat:
        if q_num_heads is None or kv_num_heads is None:
            malformed("operands of rank 3 need the attributes q_num_heads and kv_num_heads")
        q, k, v = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    keys = k if past_key is None else tensor.concatenate((past_key, k), 2)
    values = v if past_value is None else tensor.concatenate((past_value, v), 2)
    past = keys.shape[2] - k.shape[2]
    scores = q @ repeat_heads(keys, q.shape[1]).swapaxes(-1, -2)
    scores = scores * (1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale)
    capped = (scores * (1 / softcap)).tanh() * softcap if softcap > 0 else scores
    offset = tensor.constant(past, "i64") if lengths is None else lengths.cast("i64").reshape(-1, 1, 1, 1) - q.shape[2]
    places = visible_places(scores.shape, offset, is_causal, left_window_size, right_window_size)
    if lengths is not None:
        exists = tensor.iota(scores.shape, 3, "i64") < lengths.cast("i64").reshape(-1, 1, 1, 1)
        places = exists if places is None else places & exists
    hidden = -math.inf
    bias = None if mask is None else _bias(_lengthen(mask, scores.shape[-1]), scores)
    masked = capped if bias is None else capped + bias
    masked = masked if places is None else tensor.where(places, masked, hidden)
    wide = masked if softmax_precision is None else masked.cast(element_type(softmax_precision))
    chances = nn.softmax(wide).cast(q.dtype)
    y = chances @ repeat_heads(values, q.shape[1])
    if bias is not None or lengths is not None or left_window_size >= 0:
        seen = bias if bias is not None else tensor.full(scores.shape, 0.0, scores.dtype)
        seen = seen if places is None else tensor.where(places, seen, hidden)
        sees_none = seen.max(-1, keepdims=True) == hidden
        chances, y = tensor.where(sees_none, 0, chances), tensor.where(sees_none, 0, y)
    result = merge_heads(y) if flat else y
    return result, keys, values, (scores, capped, masked, chances)[qk_matmul_output_mode]


def visible_places(shape: tuple[int, ...], offset: Tensor, causal: int, left: int, right: int) -> Tensor | None:
    """Where a query at position `offset` + i may see the key at position j: not after it, if `causal`, and at most
    `left` before or `right` after it, if these are not negative. None if everywhere."""
    if not causal and left < 0 and right < 0:
        return None
    ahead = tensor.iota(shape, 3, "i64") - (tensor.iota(shape, 2, "i64") + offset)
    seen: Tensor | None = None
    for limit in ([0] if causal else []) + ([right] if right >= 0 else []):
        within = ahead <= limit
        seen = within if seen is None else seen & within
    if left >= 0:
        within = -ahead <= left
        seen = within if seen is None else seen & within
    return seen


def _bias(mask: Tensor, scores: Tensor) -> Tensor:
    """The mask as numbers to add: 0 where a bool is true, else -inf."""
    return tensor.where(mask, 0.0, -math.inf).cast(scores.dtype) if mask.dtype.is_bool else mask


def _lengthen(mask: Tensor, keys: int) -> Tensor:
    """A mask for fewer keys hides the others."""
    missing = keys - mask.shape[-1]
    if missing <= 0 or mask.shape[-1] == 1:
        return mask
    return mask.pad([(0, 0)] * (mask.ndim - 1) + [(0, missing)], False if mask.dtype.is_bool else -math.inf)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, L, H·D] → [B, H, L, D]"""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).swapaxes(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """[B, H, L, D] → [B, L, H·D]"""
    batch, heads, length, width = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, heads * width)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """x [B, G, L, D] with every head repeated for its heads / G queries."""
    groups = x.shape[1]
    if groups in (0, heads):
        return x
    if heads % groups:
        malformed(f"{heads} heads of queries are no multiple of {groups} heads of keys")
    return x.repeat_interleave(heads // groups, 1)


@operator("LinearAttention", since=27)
def _linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "gated_delta",
) -> tuple[Tensor, Tensor]:
    """A state S [B, H, D, M] per step: S ← e^decay S + k (beta (v - kᵀS))ᵀ, and the result is scale · qᵀS.

    The rule says whether there are a decay and a correction by kᵀS. Also returns the last state.
    """
    queries, keys, values = (
        split_heads(sequence.cast(fp32), heads)
        for sequence, heads in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))
    )
    if (decay is None) != (update_rule in ("linear", "delta")) or (beta is None) != (
        update_rule in ("linear", "gated")
    ):
        malformed(f"the inputs decay and beta do not fit the rule {update_rule!r}")
    decays = None if decay is None else split_heads(decay.cast(fp32), kv_num_heads)
    betas = None if beta is None else split_heads(beta.cast(fp32), beta.shape[-1])
    factor = scale or 1 / math.sqrt(queries.shape[-1])
    shape = (q.shape[0], kv_num_heads, keys.shape[-1], values.shape[-1])
    initial = tensor.full(shape, 0.0) if past is None else past.cast(fp32)
    decaying = [] if decays is None else [decays[..., None].exp()]
    correcting = [] if betas is None else [betas[..., None]]
    sequences = [queries[..., None, :], keys[..., None], values[..., None, :], *decaying, *correcting]

    def step(states: State, elements: State) -> tuple[State, State]:
        (state,) = states
        query, key, value, *others = elements
        if decaying:
            state = state * others[0]
        if correcting:
            value = others[-1] * (value - (state * key).sum(2, keepdims=True))
        state = state + key * value
        return (state,), (query @ repeat_heads(state, q_num_heads) * factor,)

    (state,), (output,) = run_steps(step, (initial,), tuple(sequence.permute(2, 0, 1, 3, 4) for sequence in sequences))
    last = state.cast(q.dtype if past is None else past.dtype)
    return merge_heads(output[..., 0, :].permute(1, 2, 0, 3)).cast(q.dtype), last
