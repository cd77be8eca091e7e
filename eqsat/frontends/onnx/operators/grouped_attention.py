"""GroupQueryAttention of onnxruntime (domain com.microsoft), which all layers of exported language models have: heads
of queries share heads of keys, and keys and values go to a cache."""

from __future__ import annotations

import math

import msgspec

from eqsat import nn, tensor
from eqsat.frontends.onnx.operands import known_number, malformed, refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.attention import merge_heads, repeat_heads, split_heads, visible_places
from eqsat.frontends.onnx.operators.runtime_attention import rotate, split_projection
from eqsat.tensor import Tensor


class GroupedAttributes(msgspec.Struct, frozen=True):
    """The attributes of GroupQueryAttention, but for those of caches of bytes."""

    num_heads: int
    kv_num_heads: int
    causal: int = 1
    do_rotary: int = 0
    k_quant_type: str = "NONE"
    kv_cache_bit_width: int = 0
    local_window_size: int = -1
    qk_output: int = 0
    rotary_interleaved: int = 0
    scale: float = 0.0
    sliding_window_cache: int = 0
    smooth_softmax: int = -1
    softcap: float = 0.0
    v_quant_type: str = "NONE"


@operator("GroupQueryAttention", domain="com.microsoft")
def _attention(
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    lasts: Tensor,
    total: Tensor,
    cosines: Tensor | None = None,
    sines: Tensor | None = None,
    places: Tensor | None = None,
    scores_bias: Tensor | None = None,
    *further: Tensor | None,
    attributes: GroupedAttributes,
) -> tuple[Tensor, Tensor, Tensor]:
    """q [B, L, heads · D], or with k and v beside it; the result has its shape. Also the keys and values with the past
    ones, [B, groups, T, D]. lasts: the position of the last key of each batch. total: the positions that count, which
    must be known: a prompt has as many queries. Keys after the last one are not specified."""
    _refuse_others(attributes, any(operand is not None for operand in further))
    queries, keys, values = _heads(q, k, v, attributes)
    length, positions = q.shape[1], int(known_number(total, "total_sequence_length"))
    is_prompt = length == positions
    ends = lasts.cast("i64").reshape(-1) + 1
    starts = ends * 0 if is_prompt else ends - length
    if attributes.do_rotary:
        if cosines is None or sines is None:
            malformed("do_rotary needs cos_cache and sin_cache")
        at = _places(places, starts, length, is_prompt)
        turned = [rotate(x, cosines, sines, at, bool(attributes.rotary_interleaved)) for x in (queries, keys)]
        queries, keys = turned
    held = [_append(past, new, starts, positions, is_prompt) for past, new in ((past_key, keys), (past_value, values))]
    result = _attend(queries, held[0], held[1], starts, ends, scores_bias, attributes)
    return merge_heads(result), held[0], held[1]


def _refuse_others(attributes: GroupedAttributes, has_further: bool) -> None:
    """Raises EqsatError, UnsupportedOp, for what is not computed."""
    others = {
        "an input after attention_bias": has_further,
        "a cache of bytes": (attributes.k_quant_type, attributes.v_quant_type) != ("NONE", "NONE"),
        "a cache of a window": bool(attributes.sliding_window_cache),
        "smooth_softmax": attributes.smooth_softmax > 0,
        "qk_output": bool(attributes.qk_output),
    }
    for what in (what for what, is_there in others.items() if is_there):
        refuse(f"{what} of GroupQueryAttention", hint="export the model without it")


def _heads(q: Tensor, k: Tensor | None, v: Tensor | None, attributes: GroupedAttributes) -> tuple[Tensor, ...]:
    """q, k and v as [B, heads, L, D]. Without k and v, q holds all three beside each other."""
    heads, groups = attributes.num_heads, attributes.kv_num_heads
    if k is None or v is None:
        size = q.shape[-1] // (heads + 2 * groups)
        q, k, v = split_projection(q, (heads * size, groups * size, groups * size))
    return split_heads(q, heads), split_heads(k, groups), split_heads(v, groups)


def _places(places: Tensor | None, starts: Tensor, length: int, is_prompt: bool) -> Tensor:
    """The positions of the queries, [B, L]. Of those given for a prompt, only the first counts."""
    steps = tensor.arange(length).reshape(1, length)
    if places is None:
        return starts.reshape(-1, 1) + steps
    if is_prompt:
        return places.reshape(-1)[0].cast("i64") + steps + starts.reshape(-1, 1)
    return places.cast("i64").reshape(starts.shape[0], length)


def _append(past: Tensor | None, new: Tensor, starts: Tensor, positions: int, is_prompt: bool) -> Tensor:
    """The cache [B, groups, T, D] with the new rows from the position `starts` of each batch on. T: `positions`, or the
    length of the past cache if that is longer. A cache that does not grow may be updated in place."""
    size = positions if past is None else max(positions, past.shape[2])
    if past is not None and past.shape[2] == size:
        rows = starts.reshape(-1, 1, 1, 1) + tensor.iota(new.shape, 2, "i64")
        return past.scatter(2, rows, new)
    if past is None or is_prompt:
        return new.pad([(0, 0), (0, 0), (0, size - new.shape[2]), (0, 0)])
    shape = (*new.shape[:2], size, new.shape[3])
    offset = tensor.iota(shape, 2, "i64") - starts.reshape(-1, 1, 1, 1)
    old = past.pad([(0, 0), (0, 0), (0, size - past.shape[2]), (0, 0)])
    return tensor.where(offset < 0, old, new.gather(2, offset.maximum(0).minimum(new.shape[2] - 1)))


def _attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    starts: Tensor,
    ends: Tensor,
    bias: Tensor | None,
    attributes: GroupedAttributes,
) -> Tensor:
    """softmax(q·kᵀ·scale + bias)·v, [B, heads, L, D], of the keys before `ends` that a query may see."""
    scores = q @ repeat_heads(keys, q.shape[1]).swapaxes(-1, -2)
    scores = scores * (attributes.scale or 1 / math.sqrt(q.shape[-1]))
    if attributes.softcap > 0:
        scores = (scores * (1 / attributes.softcap)).tanh() * attributes.softcap
    if bias is not None:
        scores = scores + bias.pad([(0, 0)] * 3 + [(0, scores.shape[3] - bias.shape[3])])
    seen = tensor.iota(scores.shape, 3, "i64") < ends.reshape(-1, 1, 1, 1)
    offset = starts.reshape(-1, 1, 1, 1)
    before = max(attributes.local_window_size - 1, -1)  # the window counts the query's own key
    limited = visible_places(scores.shape, offset, attributes.causal, before, -1)
    seen = seen if limited is None else seen & limited
    return nn.softmax(tensor.where(seen, scores, -math.inf)).cast(q.dtype) @ repeat_heads(values, q.shape[1])
