"""The embeddings of BERT in onnxruntime's domain (com.microsoft), which its optimizer and its quantizer leave behind:
sums of rows of tables, with a layer norm."""

from __future__ import annotations

from eqsat import nn, tensor
from eqsat.frontends.onnx.operator_table import operator
from eqsat.frontends.onnx.operators.runtime_quantization import widen
from eqsat.tensor import Tensor
from ir.dtype import i32

DOMAIN = "com.microsoft"


@operator("EmbedLayerNormalization", domain=DOMAIN)
def _embed(
    words: Tensor,
    segments: Tensor | None,
    word_table: Tensor,
    place_table: Tensor,
    segment_table: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    places: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm [batch, length, width]; the number of words of each sequence that `mask` shows, i32; and the sum."""
    rows = [word_table.take(words, 0), place_table[: words.shape[1]] if places is None else place_table.take(places, 0)]
    if segments is not None and segment_table is not None:
        rows.append(segment_table.take(segments, 0))
    return _normalize(rows, gamma, beta, words, mask, epsilon)


@operator("QEmbedLayerNormalization", domain=DOMAIN)
def _quantized_embed(
    words: Tensor,
    segments: Tensor | None,
    word_table: Tensor,
    place_table: Tensor,
    segment_table: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None,
    word_scale: Tensor,
    place_scale: Tensor,
    segment_scale: Tensor | None,
    gamma_scale: Tensor,
    beta_scale: Tensor,
    word_zero: Tensor,
    place_zero: Tensor,
    segment_zero: Tensor | None,
    gamma_zero: Tensor,
    beta_zero: Tensor,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor]:
    """The norm and the number of words, as EmbedLayerNormalization has them. The tables and the weights are bytes."""
    rows = [
        widen(word_table.take(words, 0), word_scale, word_zero),
        widen(place_table[: words.shape[1]], place_scale, place_zero),
    ]
    if segments is not None and segment_table is not None and segment_scale is not None:
        rows.append(widen(segment_table.take(segments, 0), segment_scale, segment_zero))
    weights = widen(gamma, gamma_scale, gamma_zero), widen(beta, beta_scale, beta_zero)
    return _normalize(rows, *weights, words, mask, epsilon)[:2]


def _normalize(
    rows: list[Tensor], gamma: Tensor, beta: Tensor, words: Tensor, mask: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm of the sum of `rows`, the words of each sequence, and the sum."""
    total = rows[0] + rows[1]
    if len(rows) > 2:
        total = total + rows[2]
    batch = words.shape[0]
    counts = tensor.full((batch,), 0, i32) if mask is None else (mask == 1).cast(i32).sum(1).cast(i32)
    return nn.layer_norm(total, gamma, beta, epsilon), counts, total
