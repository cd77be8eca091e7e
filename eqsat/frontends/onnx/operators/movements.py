"""Operators that rearrange, cut and join tensors."""

from __future__ import annotations

from eqsat import tensor
from eqsat.frontends.onnx.operands import known_integers, known_number, malformed
from eqsat.frontends.onnx.operator_table import operator
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor


@operator("Transpose")
def _transpose(x: Tensor, *, perm: tuple[int, ...] = ()) -> Tensor:
    """Without `perm`, the axes are reversed."""
    return x.permute(*perm) if perm else x.T


@operator("Concat")
def _concat(x: Tensor, *others: Tensor, axis: int = 1) -> Tensor:
    return tensor.concatenate((x, *others), axis)


@operator("Concat", since=4)
def _concat_along(x: Tensor, *others: Tensor, axis: int) -> Tensor:
    return tensor.concatenate((x, *others), axis)


@operator("Split")
def _split_attribute(
    x: Tensor, lengths: Tensor | None = None, *, axis: int = 0, split: tuple[int, ...] | None = None, results: int
) -> tuple[Tensor, ...]:
    given = known_integers(lengths, "the list of lengths") if lengths is not None else split
    return cut(x, axis, given, results)


@operator("Split", since=13)
def _split(
    x: Tensor, lengths: Tensor | None = None, *, axis: int = 0, num_outputs: int | None = None, results: int
) -> tuple[Tensor, ...]:
    """Without `lengths`, the parts have one length, and the last may be shorter."""
    given = None if lengths is None else known_integers(lengths, "the list of lengths")
    return cut(x, axis, given, num_outputs or results)


def cut(x: Tensor, axis: int, lengths: list[int] | tuple[int, ...] | None, parts: int) -> tuple[Tensor, ...]:
    """Consecutive parts of x along `axis`."""
    place = axis_in(axis, x.shape)
    size = x.shape[place]
    if lengths is None:
        length = -(-size // parts)
        lengths = [max(min(length, size - length * part), 0) for part in range(parts)]
    if sum(lengths) != size:
        malformed(f"parts of the lengths {list(lengths)} do not make up an axis of size {size}")
    ends = [sum(lengths[: part + 1]) for part in range(len(lengths))]
    before = (slice(None),) * place
    return tuple(x[(*before, slice(end - length, end))] for end, length in zip(ends, lengths, strict=True))


@operator("Slice")
def _slice_attributes(
    x: Tensor, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Tensor:
    return slice_axes(x, starts, ends, axes or range(len(starts)), (1,) * len(starts))


@operator("Slice", since=10)
def _slice(x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None) -> Tensor:
    first = known_integers(starts, "the list of starts")
    along = range(len(first)) if axes is None else known_integers(axes, "the list of axes")
    by = [1] * len(first) if steps is None else known_integers(steps, "the list of steps")
    return slice_axes(x, first, known_integers(ends, "the list of ends"), along, by)


def slice_axes(
    x: Tensor,
    starts: list[int] | tuple[int, ...],
    ends: list[int] | tuple[int, ...],
    axes: list[int] | tuple[int, ...] | range,
    steps: list[int] | tuple[int, ...],
) -> Tensor:
    """NumPy's slices along these axes; ends that lie far outside are the end of the axis. A start before the axis is
    its first element, with a negative step too."""
    key = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_in(axis, x.shape)
        before = step < 0 and end < -x.shape[place]
        key[place] = slice(max(start, -x.shape[place]), None if before else end, step)
    return x[tuple(key)]


@operator("Tile")
def _tile_axis(x: Tensor, tiles: Tensor, axis: Tensor) -> Tensor:
    place = axis_in(int(known_number(axis, "the axis")), x.shape)
    counts = [1] * x.ndim
    counts[place] = int(known_number(tiles, "the number of tiles"))
    return x.tile(counts)


@operator("Tile", since=6)
def _tile(x: Tensor, repeats: Tensor) -> Tensor:
    counts = known_integers(repeats, "the list of repeats")
    if len(counts) != x.ndim:
        malformed(f"{len(counts)} repeats for {x.ndim} axes")
    return x.tile(counts)


@operator("Trilu", since=14)
def _triangle(x: Tensor, k: Tensor | None = None, *, upper: int = 1) -> Tensor:
    """The upper (or lower) triangle of each matrix, from the k-th diagonal on; zeros elsewhere."""
    offset = 0 if k is None else int(known_number(k, "the diagonal"))
    rows, columns = (tensor.iota(x.shape[-2:], axis, "i64") for axis in (0, 1))
    kept = columns - rows >= offset if upper else columns - rows <= offset
    return tensor.where(kept, x, 0).cast(x.dtype)


@operator("CenterCropPad", since=18)
def _center_crop_pad(x: Tensor, shape: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    wanted = known_integers(shape, "the shape")
    for axis, size in zip(range(x.ndim) if axes is None else axes, wanted, strict=True):
        place = axis_in(axis, x.shape)
        before = abs(size - x.shape[place]) // 2
        if size <= x.shape[place]:
            x = x[(*(slice(None),) * place, slice(before, before + size))]
        else:
            widths = [(0, 0)] * x.ndim
            widths[place] = (before, size - x.shape[place] - before)
            x = x.pad(widths)
    return x


@operator("ReverseSequence", since=10)
def _reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first `lengths` elements along the time axis in reverse order, a length per batch."""
    along = tensor.iota(x.shape, time_axis, "i64")
    shape = [1] * x.ndim
    shape[batch_axis] = x.shape[batch_axis]
    length = lengths.cast("i64").reshape(shape)
    return x.gather(time_axis, tensor.where(along < length, length - 1 - along, along))


@operator("Compress", since=9)
def _compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The slices for which the condition holds; the condition must be known, since it decides the shape."""
    flat = x.reshape(-1 if x.size else 0) if axis is None else x
    chosen = [place for place, holds in enumerate(known_integers(condition, "the condition")) if holds]
    return flat.take(tensor.constant(chosen, "i64"), 0 if axis is None else axis)
