"""Reductions over segments of rows: bags of embeddings, and segments that lengths or offsets bound."""

from __future__ import annotations

import math

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import Number, axis_in
from eqsat.tensor import Tensor, concatenate, constant, full, iota, where
from ir.dtype import DType, i64

_SUM, _MEAN = 0, 1
"""Modes of an embedding bag; 2 is the maximum."""


@aten("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    weight: Tensor,
    index: Tensor,
    offsets: Tensor,
    scale_by_frequency: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    weights: Tensor | None = None,
    with_last_offset: bool = False,
    padding: int = -1,
) -> tuple[Tensor, None, None, None]:
    """Per bag the sum, mean or maximum of the rows of `weight` at its positions in `index`; a bag without rows is 0.
    The other results of the operator serve its gradient alone."""
    bags = offsets.shape[0] - with_last_offset
    count, width = index.shape[0], weight.shape[1]
    if not count or not bags:
        return full((bags, width), 0, weight.dtype), None, None, None
    starts = offsets.cast(i64)
    ends = starts[1:] if with_last_offset else concatenate([starts[1:], full((1,), count, i64)])
    place = iota((bags, count), 1, i64)
    inside = (place >= starts[:bags].unsqueeze(1)) & (place < ends.unsqueeze(1))
    if padding >= 0:
        inside = inside & (index != padding).unsqueeze(0)
    rows = weight.cast(weight.dtype.accumulator).take(index, 0)
    if weights is not None:
        rows = rows * weights.cast(rows.dtype).unsqueeze(1)
    sizes = inside.cast(i64).sum(1, keepdims=True)
    chosen = inside.unsqueeze(2)
    if mode in (_SUM, _MEAN):
        total = where(chosen, rows.unsqueeze(0), 0.0).sum(1)
        result = total / sizes.maximum(1).cast(rows.dtype) if mode == _MEAN else total
    else:
        result = where(sizes > 0, where(chosen, rows.unsqueeze(0), -math.inf).amax(1), 0.0)
    return result.cast(weight.dtype), None, None, None


@aten("segment_reduce")
def _segment_reduce(
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
    result: DType,
) -> Tensor:
    """Each segment along the axis, of these lengths or between these offsets, as its sum, mean, product, maximum or
    minimum. The axes before it are a batch, for which lengths and offsets have axes too."""
    place = axis_in(axis, x.shape)
    if offsets is not None:
        starts, ends = offsets[..., :-1].cast(i64), offsets[..., 1:].cast(i64)
    else:
        assert lengths is not None
        ends = lengths.cast(i64).cumsum(lengths.ndim - 1) if lengths.size else lengths.cast(i64)
        starts = ends - lengths.cast(i64)
    batch, size, rest = x.shape[:place], x.shape[place], x.shape[place + 1 :]
    count = starts.shape[-1]
    neutral = {"sum": 0, "mean": 0, "prod": 1, "max": -math.inf, "min": math.inf}[reduce]
    start = neutral if initial is None else initial
    if not size or not count or not x.size:
        empty = math.nan if reduce == "mean" and initial is None else start
        return full((*batch, count, *rest), float(empty), result)
    position = iota((*batch, count, size), len(batch) + 1, i64)
    inside = (position >= starts.unsqueeze(-1)) & (position < ends.unsqueeze(-1))
    chosen = inside.reshape(*inside.shape, *(1,) * len(rest))
    values = where(chosen, x.unsqueeze(place).cast(x.dtype.accumulator), constant(float(neutral), x.dtype.accumulator))
    along = place + 1
    if reduce in ("sum", "mean"):
        total = values.sum(along) + float(start)
    elif reduce == "prod":
        total = values.prod(along) * float(start)
    else:
        bound = constant(float(start), values.dtype)
        total = values.amax(along).maximum(bound) if reduce == "max" else values.amin(along).minimum(bound)
    if reduce == "mean":
        sizes = (ends - starts).reshape(*starts.shape, *(1,) * len(rest)).cast(values.dtype)
        total = where((sizes == 0) & (initial is not None), total, total / sizes)
    return total.cast(result)
