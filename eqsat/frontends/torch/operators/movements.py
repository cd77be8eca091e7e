"""Operators that rearrange, cut, join and copy tensors. Views are values here: an operator and its `_copy` agree."""

from __future__ import annotations

from itertools import accumulate

from eqsat.frontends.torch.operator_table import aten
from eqsat.lazy.argument_checks import axis_in
from eqsat.tensor import Tensor, concatenate, iota, stack, where


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
    inside = (along >= first) & (along < first + count * by) & ((along - first) % by == 0)
    spread = source.cast(x.dtype).repeat(by, place)[(*(slice(None),) * place, slice(0, size - first))]
    widths = [(0, 0)] * x.ndim
    widths[place] = (first, size - first - spread.shape[place])
    return where(inside, spread.pad(widths), x)


@aten("select_scatter")
def _select_scatter(x: Tensor, source: Tensor, axis: int, place: int) -> Tensor:
    """x, with the source in place of one element along the axis."""
    along = axis_in(axis, x.shape)
    return where(iota(x.shape, along, "i64") == place % x.shape[along], source.cast(x.dtype).unsqueeze(along), x)


@aten("cat")
def _concatenate(parts: list[Tensor], axis: int) -> Tensor:
    """Parts of the shape [0] count for nothing, whatever the rank of the others."""
    used = [part for part in parts if part.shape != (0,)]
    return concatenate(used or parts, axis)


@aten("stack")
def _stack(parts: list[Tensor], axis: int) -> Tensor:
    return stack(parts, axis)


@aten("split.Tensor", "split_copy.Tensor")
def _split(x: Tensor, length: int, axis: int) -> list[Tensor]:
    size = x.shape[axis_in(axis, x.shape)]
    return x.split(list(range(length, size, length)) if length else [], axis)


@aten("split_with_sizes", "split_with_sizes_copy")
def _split_with_sizes(x: Tensor, lengths: list[int], axis: int) -> list[Tensor]:
    return x.split(list(accumulate(lengths))[:-1], axis)


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


@aten("sym_size.int")
def _size(x: Tensor, axis: int) -> int:
    return x.shape[axis]


@aten("sym_numel")
def _element_count(x: Tensor) -> int:
    return x.size
