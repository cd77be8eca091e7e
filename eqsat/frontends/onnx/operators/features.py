"""Features of classical machine learning: thresholds, chosen columns, counts of n-grams."""

from __future__ import annotations

from typing import Literal

import numpy as np

from eqsat import tensor
from eqsat.frontends.onnx.operands import refuse
from eqsat.frontends.onnx.operator_table import operator
from eqsat.tensor import Tensor, where


@operator("Binarizer", domain="ai.onnx.ml")
def _binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).cast(x.dtype)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _array_feature_extractor(x: Tensor, index: Tensor) -> Tensor:
    """The columns of x at the positions; a vector is one row."""
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    return rows.take(index.reshape(index.size), rows.ndim - 1)


@operator("TfIdfVectorizer", since=9)
def _tf_idf_vectorizer(
    x: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: Literal["TF", "IDF", "TFIDF"],
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Tensor:
    """How often each n-gram of the pool stands in each row of x [rows, C] or [C], with 0 to `max_skip_count` elements
    left out between its items. ngram_counts: where the n-grams of each length begin in the pool. ngram_indexes: the
    column of each n-gram in the result. weights: of each n-gram."""
    if pool_strings:
        refuse("a pool of strings")
    rows = (x.reshape(1, -1) if x.ndim < 2 else x).cast("i64")
    pool = np.array(pool_int64s or (), np.int64)
    width = max(ngram_indexes) + 1
    counts = tensor.full((rows.shape[0], width), 0, "i32")
    before = 0
    for length, (start, end) in enumerate(zip(ngram_counts, [*ngram_counts[1:], len(pool)], strict=True), 1):
        grams = pool[start:end].reshape(-1, length)
        columns, before = ngram_indexes[before : before + len(grams)], before + len(grams)
        if len(grams) and min_gram_length <= length <= max_gram_length:
            counted = _count_grams(rows, grams, max_skip_count + 1 if length > 1 else 1)
            if counted is not None:
                at = tensor.constant(np.array(columns, np.int64)).expand(rows.shape[0], len(grams))
                counts = counts.scatter(1, at, counted, "add")
    known = np.ones(width, np.float32)
    if weights:
        known[ngram_indexes] = weights
    if mode == "TF":
        result = counts.cast("fp32")
    elif mode == "IDF":
        result = where(counts > 0, tensor.constant(known), 0.0)
    else:
        result = counts.cast("fp32") * tensor.constant(known)
    return result.reshape(width) if x.ndim < 2 else result


def _count_grams(rows: Tensor, grams: np.ndarray, most: int) -> Tensor | None:
    """How often each of the n-grams [m, n] stands in rows [B, C], its items 1 to `most` positions apart: [B, m]; None
    if rows are too short."""
    batch, size = rows.shape
    total: Tensor | None = None
    for distance in range(1, most + 1):
        starts = size - distance * (grams.shape[1] - 1)
        if starts <= 0:
            break
        equal: Tensor | None = None
        for item in range(grams.shape[1]):
            window = rows[:, distance * item : distance * item + starts].reshape(batch, 1, starts)
            same: Tensor = window == tensor.constant(grams[:, item].reshape(1, -1, 1))
            equal = same if equal is None else equal & same
        assert equal is not None
        matches = equal.cast("i32").sum(2).cast("i32")
        total = matches if total is None else total + matches
    return total
