"""Operators that rearrange, cut, join and copy tensors. Views are values here: an operator and its `_copy` agree."""

from __future__ import annotations

import math
from itertools import accumulate

from eqsat.frontends.torch.operator_table import OperandMemory, aten
from eqsat.lazy.argument_checks import STAGE, axis_in
from eqsat.nn.paddings import from_first_axis, pad_with_elements
from eqsat.tensor import Tensor, concatenate, full, iota, stack, where
from ir.diagnostics import Kind, fail
from ir.dtype import DType


@aten("clone", "alias", "alias_copy", "detach", "detach_copy", "lift_fresh_copy", "lift_fresh", "contiguous")
def _same(x: Tensor) -> Tensor:
    return x


@aten("copy")
def _copy(x: Tensor, source: Tensor) -> Tensor:
    return source.cast(x.dtype).expand(x.shape)


@aten("view", "view_copy", "_unsafe_view", "reshape", "_reshape_alias")
def _reshape(x: Tensor, shape: list[int], *_: object) -> Tensor:
    if not x.size:
        return x.reshape([0 if size == -1 else size for size in shape])
    return x.reshape(shape)


@aten("permute", "permute_copy")
def _permute(x: Tensor, axes: list[int]) -> Tensor:
    return x.permute(axes)


@aten("transpose.int", "transpose_copy.int")
def _transpose(x: Tensor, a: int, b: int) -> Tensor:
    return x.swapaxes(a, b) if x.ndim else x


@aten("t", "t_copy")
def _transpose_matrix(x: Tensor) -> Tensor:
    return x.swapaxes(0, 1) if x.ndim == 2 else x


@aten("expand", "expand_copy")
def _expand(x: Tensor, shape: list[int], *, implicit: bool = False) -> Tensor:
    return x.expand(shape)


@aten("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims")
def _squeeze(x: Tensor, axes: int | list[int] | None = None) -> Tensor:
    """Without the axes of size 1 among these; all of them for None."""
    listed = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    return x.squeeze([axis for axis in listed if x.ndim and x.shape[axis] == 1]) if x.ndim else x


@aten("unsqueeze", "unsqueeze_copy")
def _unsqueeze(x: Tensor, axis: int) -> Tensor:
    return x.unsqueeze(axis)


@aten("slice.Tensor", "slice_copy.Tensor")
def _slice(x: Tensor, axis: int, start: int | None, end: int | None, step: int) -> Tensor:
    return x[(*(slice(None),) * axis_in(axis, x.shape), slice(start, end, step))]


@aten("narrow_copy")
def _narrow(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    first = start % max(x.shape[axis_in(axis, x.shape)], 1) if start < 0 else start
    return _slice(x, axis, first, first + length, 1)


@aten("select.int", "select_copy.int")
def _select(x: Tensor, axis: int, place: int) -> Tensor:
    return x[(*(slice(None),) * axis_in(axis, x.shape), place)]


@aten("slice_scatter")
def _slice_scatter(x: Tensor, source: Tensor, axis: int, start: int | None, end: int | None, step: int) -> Tensor:
    """x, with the source in place of a slice of x."""
    place = axis_in(axis, x.shape)
    size = x.shape[place]
    first, last, by = slice(start, end, step).indices(size)
    if first >= last:
        return x
    count = len(range(first, last, by))
    along = iota(x.shape, place, "i64")
    inside = (along >= first) & (along < first + count * by)
    if by > 1:
        inside = inside & ((along - first) % by == 0)
    spread = source.cast(x.dtype).repeat_interleave(by, place)[(*(slice(None),) * place, slice(0, size - first))]
    widths = [(0, 0)] * x.ndim
    widths[place] = (first, size - first - spread.shape[place])
    return where(inside, spread.pad(widths), x)


@aten("select_scatter")
def _select_scatter(x: Tensor, source: Tensor, axis: int, place: int) -> Tensor:
    """x, with the source in place of one element along the axis."""
    along = axis_in(axis, x.shape)
    return where(iota(x.shape, along, "i64") == place % x.shape[along], source.cast(x.dtype).unsqueeze(along), x)


@aten("cat")
def _concatenate(parts: list[Tensor], axis: int, *, result: DType) -> Tensor:
    """Parts of the shape [0] count for the dtype alone, whatever the rank of the others."""
    used = [part.cast(result) for part in parts if part.shape != (0,)]
    return concatenate(used, axis) if used else full((0,), 0, result)


@aten("stack")
def _stack(parts: list[Tensor], axis: int, *, result: DType) -> Tensor:
    return stack([part.cast(result) for part in parts], axis)


@aten("split.Tensor", "split_copy.Tensor")
def _split(x: Tensor, length: int, axis: int) -> list[Tensor]:
    size = x.shape[axis_in(axis, x.shape)]
    return x.split(list(range(length, size, length)) if length else [], axis=axis)


@aten("split_with_sizes", "split_with_sizes_copy")
def _split_with_sizes(x: Tensor, lengths: list[int], axis: int) -> list[Tensor]:
    return x.split(list(accumulate(lengths))[:-1], axis=axis)


@aten("unbind.int", "unbind_copy.int")
def _unbind(x: Tensor, axis: int) -> list[Tensor]:
    place = axis_in(axis, x.shape)
    return [x[(*(slice(None),) * place, k)] for k in range(x.shape[place])]


@aten("flip")
def _flip(x: Tensor, axes: list[int]) -> Tensor:
    return x.flip([axis_in(axis, x.shape) for axis in axes]) if x.ndim else x


@aten("roll")
def _roll(x: Tensor, shifts: list[int], axes: list[int]) -> Tensor:
    return x.roll(list(shifts), list(axes) if axes else None)


@aten("repeat")
def _repeat(x: Tensor, counts: list[int]) -> Tensor:
    return x.tile(counts)


@aten("constant_pad_nd")
def _pad(x: Tensor, widths: list[int], value: float) -> Tensor:
    """`widths`: before and after the last axis, then the last but one, and so on; below 0 elements are cut away."""
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2) + list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    cut = x[tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(pairs, x.shape, strict=True))]
    filler = float(value) if x.dtype.is_float else bool(value) if x.dtype.is_bool else int(value)
    return cut.pad([(max(a, 0), max(b, 0)) for a, b in pairs], filler)


@aten("tril")
def _lower_triangle(x: Tensor, diagonal: int) -> Tensor:
    rows, columns = (iota(x.shape[-2:], axis, "i64") for axis in (0, 1))
    return where(columns - rows <= diagonal, x, 0).cast(x.dtype)


@aten("triu")
def _upper_triangle(x: Tensor, diagonal: int) -> Tensor:
    rows, columns = (iota(x.shape[-2:], axis, "i64") for axis in (0, 1))
    return where(columns - rows >= diagonal, x, 0).cast(x.dtype)


@aten("diagonal", "diagonal_copy")
def diagonal(x: Tensor, offset: int = 0, a: int = 0, b: int = 1) -> Tensor:
    """The elements x[…, i, i + offset] along the axes a and b, as the last axis."""
    first, second = axis_in(a, x.shape), axis_in(b, x.shape)
    rows, columns = x.shape[first], x.shape[second]
    start = (max(-offset, 0), max(offset, 0))
    count = max(min(rows - start[0], columns - start[1]), 0)
    others = [axis for axis in range(x.ndim) if axis not in (first, second)]
    matrix = x.permute(*others, first, second)
    shape = (*(x.shape[axis] for axis in others), count)
    if not count or not x.size:
        return full(shape, 0, x.dtype)
    along = f"i{len(others)}"
    index_map = [f"i{axis}" for axis in range(len(others))] + [f"{along} + {first}" for first in start]
    return Tensor("VIEW", [matrix], {"result_shape": shape, "index_map": index_map})


@aten("as_strided", "as_strided_copy")
def _as_strided(
    x: Tensor, size: list[int], stride: list[int], offset: int | None = None, *, memory: OperandMemory
) -> Tensor:
    """Element i of the result is the element of x that lies at `offset` + Σ i · `stride` in memory, which x fills
    without gaps."""
    order = _order_in_memory(x, memory)
    in_memory = x.permute(*order).reshape(x.size)
    terms = [f"{step}*i{axis}" for axis, step in enumerate(stride) if step and size[axis] > 1]
    index = " + ".join([*terms, str(0 if offset is None else offset - memory.offset)])
    return Tensor("VIEW", [in_memory], {"result_shape": tuple(size), "index_map": [index]})


@aten("as_strided_scatter")
def _as_strided_scatter(
    x: Tensor, source: Tensor, size: list[int], stride: list[int], offset: int | None = None, *, memory: OperandMemory
) -> Tensor:
    """x, with element i of the source where `offset` + Σ i · `stride` lies in memory, which x fills without gaps."""
    if not source.size:
        return x
    order = _order_in_memory(x, memory)
    place = full(source.shape, 0 if offset is None else offset - memory.offset, "i64")
    for axis, step in enumerate(stride):
        place = place + iota(source.shape, axis, "i64") * step
    in_memory = x.permute(*order)
    written = in_memory.reshape(x.size).scatter(0, place.flatten(), source.cast(x.dtype).flatten())
    return written.reshape(in_memory.shape).permute([order.index(axis) for axis in range(x.ndim)])


def _order_in_memory(x: Tensor, memory: OperandMemory) -> list[int]:
    """The axes of x from the largest stride to the smallest, axes of size 1 last.

    Raises:
        EqsatError: UnsupportedOp where the memory of x has gaps, or symbols as strides.
    """
    strides = memory.strides
    order = sorted((axis for axis in range(x.ndim) if x.shape[axis] != 1), key=lambda axis: -strides[axis])
    steps = [math.prod(x.shape[axis] for axis in order[place + 1 :]) for place in range(len(order))]
    is_known = all(isinstance(number, int) for number in (*strides, memory.offset))
    if not is_known or 0 in x.shape or steps != [strides[axis] for axis in order]:
        fail(Kind.UNSUPPORTED_OP, STAGE, "as_strided reads a tensor whose memory has gaps or symbols", strides=strides)
    return [*order, *(axis for axis in range(x.ndim) if x.shape[axis] == 1)]


@aten("diagonal_scatter")
def _diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, a: int = 0, b: int = 1) -> Tensor:
    """x, with the source as its diagonal."""
    first, second = axis_in(a, x.shape), axis_in(b, x.shape)
    row, column = iota(x.shape, first, "i64"), iota(x.shape, second, "i64")
    others = [axis for axis in range(x.ndim) if axis not in (first, second)]
    count = source.shape[-1]
    if not count:
        return x
    spread = source.cast(x.dtype).unsqueeze(-1).expand(*source.shape, x.shape[second])
    rows = [*others, first, second]
    back = [rows.index(axis) for axis in range(x.ndim)]
    low = max(-offset, 0)
    padded = spread.pad([(0, 0)] * len(others) + [(low, x.shape[first] - low - count), (0, 0)])
    return where(column - row == offset, padded.permute(back), x)


@aten("unfold", "unfold_copy")
def _unfold(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Windows of this size, so many steps apart, along the axis; their elements are the last axis."""
    if not x.ndim:
        return x.reshape(1)[0:size]
    place = axis_in(axis, x.shape)
    last = x.swapaxes(place, -1) if place == x.ndim - 1 else x.permute(*(k for k in range(x.ndim) if k != place), place)
    if not size:
        count = x.shape[place] // step + 1
        return full((*x.shape[:place], count, *x.shape[place + 1 :], 0), 0, x.dtype)
    windows = Tensor("POOL", [last], {"kernel": (size,), "stride": (step,), "dilation": (1,)})
    order = list(range(x.ndim - 1))
    order.insert(place, x.ndim - 1)
    return windows.permute(*order, x.ndim)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _pad_mirrored(x: Tensor, widths: list[int]) -> Tensor:
    return pad_with_elements(x, from_first_axis(widths, x.ndim), "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _pad_with_edges(x: Tensor, widths: list[int]) -> Tensor:
    return pad_with_elements(x, from_first_axis(widths, x.ndim), "edge")


@aten("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def _pad_with_edges_gradient(gradient: Tensor, x: Tensor, widths: list[int]) -> Tensor:
    """Along each axis, the first and the last element take the gradients of their copies."""
    for number in range(len(widths) // 2):
        axis, before, after = x.ndim - 1 - number, widths[2 * number], widths[2 * number + 1]
        cut = [(max(-before, 0), max(-after, 0)) if place == axis else (0, 0) for place in range(x.ndim)]
        padded = gradient.pad(cut).swapaxes(axis, 0)
        first, last = max(before, 0) + 1, max(before, 0) + x.shape[axis] - 1
        if x.shape[axis] == 1:
            edges = [padded.sum(0, keepdims=True)]
        else:
            ends = padded[:first].sum(0, keepdims=True), padded[last:].sum(0, keepdims=True)
            edges = [ends[0], padded[first:last], ends[1]]
        gradient = concatenate(edges).swapaxes(axis, 0)
    return gradient


@aten("sym_size.int")
def _size(x: Tensor, axis: int) -> int:
    return x.shape[axis]


@aten("sym_numel")
def _element_count(x: Tensor) -> int:
    return x.size
