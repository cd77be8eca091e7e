"""Histograms: how many elements lie in each of several bins."""

from __future__ import annotations

import math

from eqsat.frontends.torch.operator_table import aten
from eqsat.frontends.torch.promotion import in_dtype
from eqsat.lazy.argument_checks import Number
from eqsat.tensor import Tensor, full, iota, where
from ir.dtype import i64


@aten("histc")
def _histogram(x: Tensor, bins: int = 100, least: Number = 0, greatest: Number = 0) -> Tensor:
    """How many elements lie in each of the bins between the least and the greatest number, or element, if the numbers
    are equal."""
    flat = x.flatten()
    low, high = in_dtype(float(least), x.dtype), in_dtype(float(greatest), x.dtype)
    if least == greatest and x.size:
        low, high = flat.min(), flat.max()
    alike = low == high
    low, high = where(alike, low - 1, low).cast(x.dtype), where(alike, high + 1, high).cast(x.dtype)
    place = ((flat - low) * bins / (high - low)).floor().minimum(bins - 1)
    inside = (flat >= low) & (flat <= high)
    hits = (place.unsqueeze(0) == iota((bins, 1), 0, i64).cast(x.dtype)) & inside.unsqueeze(0)
    counts: Tensor = hits.cast(i64).sum(1).cast(x.dtype)
    return counts


@aten("histogram.bins_tensor")
def _weigh_between(
    x: Tensor, edges: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """The number, or the weight, of the elements between two neighbours of the ordered edges, and the edges; with
    `density`, over the whole and the width."""
    flat = x.flatten()
    weights = (flat * 0.0 + 1.0 if weight is None else weight.flatten()).unsqueeze(0)
    low, high = edges[:-1].unsqueeze(1), edges[1:].unsqueeze(1)
    is_last = iota(low.shape, 0, i64) == low.shape[0] - 1
    inside = (flat >= low) & ((flat < high) | (is_last & (flat == high)))
    counts = where(inside, weights, 0.0).sum(1) if x.size else low.squeeze(1) * 0.0
    if density:
        counts = counts / counts.sum() / (edges[1:] - edges[:-1])
    return counts, edges


@aten("histogram.bin_ct")
def _weigh_bins(
    x: Tensor,
    bins: int = 100,
    *,
    range: list[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """As above for so many bins of one width from the least to the greatest element, or in a range."""
    return _weigh_between(x, equal_edges(x, bins, range), weight=weight, density=density)


def equal_edges(x: Tensor, bins: int, range: list[float] | None) -> Tensor:
    """The edges of so many bins of one width, from the least to the greatest element, or in a range."""
    bounds = range if range is not None or x.size else [0.0, 1.0]
    low, high = (x.min(), x.max()) if bounds is None else (in_dtype(edge, x.dtype) for edge in bounds)
    if bounds is None:
        alike = low == high
        low, high = where(alike, low - 0.5, low).cast(x.dtype), where(alike, high + 0.5, high).cast(x.dtype)
    place = iota((bins + 1,), 0, i64)
    step = (high - low) / bins
    forwards, backwards = low + place.cast(x.dtype) * step, high - (bins - place).cast(x.dtype) * step
    return where(place < (bins + 1) // 2, forwards, backwards)


@aten("_histogramdd_bin_edges")
def _edges_by_axis(
    x: Tensor,
    bins: list[int],
    *,
    range: list[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:
    """The edges along each axis of points x [..., axes]."""
    points = x.flatten(0, x.ndim - 2)
    parts = [None if range is None else range[2 * axis : 2 * axis + 2] for axis, _ in enumerate(bins)]
    return [
        equal_edges(points[:, axis], count, part) for axis, (count, part) in enumerate(zip(bins, parts, strict=True))
    ]


@aten("_histogramdd_from_bin_cts")
def _weigh_boxes(
    x: Tensor,
    bins: list[int],
    *,
    range: list[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    return _weigh_boxes_between(x, _edges_by_axis(x, bins, range=range), weight=weight, density=density)


@aten("_histogramdd_from_bin_tensors")
def _weigh_boxes_between(
    x: Tensor, edges: list[Tensor], *, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    """The number, or the weight, of the points x [..., axes] in each box between neighbours of the edges; with
    `density`, over the whole and the volume."""
    points = x.flatten(0, x.ndim - 2)
    count, shape = points.shape[0], tuple(edge.shape[0] - 1 for edge in edges)
    flat = full((count,), 0, i64)
    inside = full((count,), True, "bool")
    for axis, edge in enumerate(edges):
        along = points[:, axis].unsqueeze(1)
        last = edge[-1:]
        place = (along >= edge.unsqueeze(0)).cast(i64).sum(1) - 1
        place = where(points[:, axis] == last, shape[axis] - 1, place)
        inside = inside & (place >= 0) & (points[:, axis] <= last)
        flat = flat * shape[axis] + place
    weights = full((count,), 1.0, x.dtype) if weight is None else weight.flatten()
    counts = full((math.prod(shape),), 0.0, x.dtype)
    if count:
        counts = counts.scatter(0, where(inside, flat, -1), weights, "add")
    counts = counts.reshape(shape)
    if density:
        counts = counts / counts.sum()
        for axis, edge in enumerate(edges):
            counts = counts / (edge[1:] - edge[:-1]).reshape(shape[axis], *(1,) * (len(shape) - axis - 1))
    return counts
