"""Reductions over segments of rows: bags of embeddings, and segments that lengths or offsets bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqsat.frontends.torch.operator_table import OperandMemory, aten
from eqsat.lazy.argument_checks import Number, axis_in
from eqsat.lazy.known_value import is_known, known_value
from eqsat.tensor import Tensor, constant, full, iota, where
from ir.diagnostics import Kind, fail
from ir.dtype import DType, fp16, fp32, i64
from ir.frontend import STAGE

_SUM, _MEAN, _MAX = 0, 1, 2
"""Modes of an embedding bag."""


@aten("_embedding_bag")
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
    *,
    memory: OperandMemory,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Per bag the sum, mean or maximum of the rows of `weight` at its positions in `index`; a bag without rows is 0.
    Then the operands of the gradient: the bag of each position, the number of rows of each bag, and, for maxima, the
    row of each maximum, else the number of rows once more."""
    bags = offsets.shape[0] - with_last_offset
    count, width = index.shape[0], weight.shape[1]
    bag_of_position = _bag_of_positions(offsets, bags, count)
    if not count or not bags:
        places = full((bags, width) if mode == _MAX else (bags,), 0, offsets.dtype)
        return full((bags, width), 0, weight.dtype), bag_of_position, full((bags,), 0, offsets.dtype), places
    rows = weight.cast(weight.dtype.accumulator).take(index, 0)
    if weights is not None:
        rows = rows * weights.cast(rows.dtype).unsqueeze(1)
    is_counted = index != padding if padding >= 0 else full((count,), True, "bool")
    if with_last_offset:
        is_counted = is_counted & (iota((count,), 0, i64) < offsets[bags].cast(i64))
    is_short = mode == _SUM and weight.dtype in (fp32, fp16) and padding < 0 and memory.strides[1] == 1
    first = full((0,), 0, offsets.dtype) if is_short else bag_of_position
    are_even = _are_even(offsets, bags, count)
    if mode in (_SUM, _MEAN):
        total, sizes = (
            _sums_of_even_bags(rows, is_counted, bags)
            if are_even
            else _sums_of_bags(rows, is_counted, bag_of_position, bags)
        )
        divisor = sizes.maximum(1).cast(rows.dtype).unsqueeze(1)
        numbers = sizes.cast(offsets.dtype)
        return (total / divisor if mode == _MEAN else total).cast(weight.dtype), first, numbers, numbers
    if are_even:
        chosen, grouped = is_counted.reshape(bags, -1), rows.reshape(bags, -1, width)
        start = iota((bags, 1), 0, i64) * (count // bags)
    else:
        chosen = (bag_of_position == iota((bags, count), 0, offsets.dtype)) & is_counted
        grouped, start = rows.unsqueeze(0), constant(0, i64)
    values, sizes = where(chosen.unsqueeze(2), grouped, -math.inf), chosen.cast(i64).sum(1)
    has_rows = (sizes > 0).unsqueeze(1)
    greatest = where(has_rows, values.amax(1), 0.0).cast(weight.dtype)
    row_of_greatest = where(has_rows, index.take(values.argmax(1) + start, 0), 0).cast(offsets.dtype)
    return greatest, first, sizes.cast(offsets.dtype), row_of_greatest


def _are_even(offsets: Tensor, bags: int, count: int) -> bool:
    """Whether all bags are known to have the same number of positions, and leave none over."""
    if count % bags or not is_known(offsets):
        return False
    return np.array_equal(known_value(offsets, "the offsets", STAGE)[:bags], np.arange(bags) * (count // bags))


def _sums_of_even_bags(rows: Tensor, is_counted: Tensor, bags: int) -> tuple[Tensor, Tensor]:
    """As `_sums_of_bags`, of bags with the same number of positions."""
    chosen = where(is_counted.unsqueeze(1), rows, 0.0)
    return chosen.reshape(bags, -1, rows.shape[1]).sum(1), is_counted.cast(i64).reshape(bags, -1).sum(1)


def _sums_of_bags(rows: Tensor, is_counted: Tensor, bag_of_position: Tensor, bags: int) -> tuple[Tensor, Tensor]:
    """The sums [bags, width], and the numbers [bags] of rows that are counted: rows are added to the results of their
    bags, so that the work does not grow with the number of bags."""
    count, width = rows.shape
    bag = where(is_counted, bag_of_position.cast(i64), -1)
    total = full((bags, width), 0, rows.dtype).scatter(0, bag.unsqueeze(1).expand(count, width), rows, "add")
    return total, full((bags,), 0, i64).scatter(0, bag, full((count,), 1, i64), "add")


@aten("_embedding_bag_forward_only")
def _embedding_bag_in_inference(
    weight: Tensor, index: Tensor, offsets: Tensor, *modes: Any, memory: OperandMemory
) -> tuple[Tensor, None, None, None]:
    """The bags alone."""
    return _embedding_bag(weight, index, offsets, *modes, memory=memory)[0], None, None, None


def _bag_of_positions(offsets: Tensor, bags: int, count: int) -> Tensor:
    """The bag [count] in which each position lies; positions behind all bags belong to the last."""
    if not bags or not count:
        return full((count,), 0, offsets.dtype)
    if is_known(offsets):
        starts = known_value(offsets, "the offsets", STAGE)[:bags]
        return constant(np.searchsorted(starts, np.arange(count), "right") - 1).cast(offsets.dtype)
    later = offsets[1:bags].cast(i64)
    begun = full((count,), 0, i64).scatter(0, where(later < count, later, -1), full(later.shape, 1, i64), "add")
    return begun.cumsum(0).cast(offsets.dtype)


@aten("_embedding_bag_backward")
def _embedding_bag_gradient(
    gradient: Tensor,
    index: Tensor,
    offsets: Tensor,
    bag_of_position: Tensor,
    sizes: Tensor,
    row_of_greatest: Tensor,
    rows: int,
    scale_by_frequency: bool,
    mode: int,
    sparse: bool,
    weights: Tensor | None,
    padding: int = -1,
) -> Tensor:
    """The gradient of a bag is added to each of its rows; of a maximum, to the row of the maximum."""
    if scale_by_frequency or sparse:
        name = "scale_grad_by_freq" if scale_by_frequency else "sparse"
        fail(Kind.UNSUPPORTED_OP, STAGE, f"{name}=True is not supported", op="_embedding_bag_backward")
    bags, width = gradient.shape
    zeros = full((rows, width), 0, gradient.dtype.accumulator)
    if not index.size or not bags or not zeros.size:
        return zeros.cast(gradient.dtype)
    wide = gradient.cast(zeros.dtype)
    if mode == _MAX:
        at = where((sizes > 0).unsqueeze(1), row_of_greatest.cast(i64), -1)
        return zeros.scatter(0, at, wide, "add").cast(gradient.dtype)
    if mode == _MEAN:
        wide = wide / sizes.maximum(1).cast(wide.dtype).unsqueeze(1)
    updates = wide.take(_bag_of_positions(offsets, bags, index.shape[0]), 0)
    if weights is not None:
        updates = updates * weights.cast(wide.dtype).unsqueeze(1)
    at = where(index == padding, -1, index.cast(i64)).unsqueeze(1).expand(updates.shape)
    return zeros.scatter(0, at, updates, "add").cast(gradient.dtype)


@aten("_embedding_bag_per_sample_weights_backward")
def _gradient_of_weights(
    gradient: Tensor,
    weight: Tensor,
    index: Tensor,
    offsets: Tensor,
    bag_of_position: Tensor,
    mode: int,
    padding: int = -1,
) -> Tensor:
    """Per position the product of its row with the gradient of its bag; 0 of the row `padding`."""
    bags, count = gradient.shape[0], index.shape[0]
    if not count or not bags:
        return full((count,), 0, gradient.dtype)
    wide = gradient.cast(gradient.dtype.accumulator).take(_bag_of_positions(offsets, bags, count), 0)
    products = (wide * weight.cast(wide.dtype).take(index, 0)).sum(1)
    return where(index == padding, 0.0, products).cast(gradient.dtype)


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
    """Reduces every segment along the axis, of these lengths or between these offsets, to its sum, mean, product,
    maximum or minimum. The axes before it are a batch, for which lengths and offsets have axes too."""
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
