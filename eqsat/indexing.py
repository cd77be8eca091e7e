"""NumPy's basic indexing as SHRINK, FLIP and RESHAPE."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING

from ir.diagnostics import Kind, fail

if TYPE_CHECKING:
    from eqsat.tensor import Tensor

Key = int | slice | EllipsisType | None


def basic(tensor: Tensor, key: Sequence[Key]) -> Tensor:
    """`tensor[key]`: first the ranges and their steps, then the reversed axes, then axes dropped and added."""
    full = _whole(tensor, key)
    read = [item for item in full if item is not None]
    ranges = [_range(item, tensor.shape[axis], axis, tensor.shape) for axis, item in enumerate(read)]
    part = tensor
    if ranges != [(0, size, 1, False) for size in tensor.shape]:
        lo, hi, step, _ = zip(*ranges, strict=True)
        part = tensor.shrink(lo, hi, step if set(step) != {1} else None)
    flipped = [axis for axis, (*_, backwards) in enumerate(ranges) if backwards]
    if flipped:
        part = part.flip(flipped)
    sizes = iter(part.shape)
    shape = [1 if item is None else next(sizes) for item in full]
    dropped = [position for position, item in enumerate(full) if isinstance(item, int)]
    return part.reshape([size for position, size in enumerate(shape) if position not in dropped])


def _whole(tensor: Tensor, key: Sequence[Key]) -> list[int | slice | None]:
    """The key with `...` spelled out and every axis present."""
    used = sum(item is not None and item is not Ellipsis for item in key)
    if used > tensor.ndim or sum(item is Ellipsis for item in key) > 1:
        fail(Kind.MALFORMED_GRAPH, "tensor", f"{used} indices for a tensor of rank {tensor.ndim}", shape=tensor.shape)
    rest = [slice(None)] * (tensor.ndim - used)
    full: list[int | slice | None] = []
    for item in key if Ellipsis in key else (*key, Ellipsis):
        if isinstance(item, EllipsisType):
            full += rest
        elif item is None or isinstance(item, int | slice):
            full.append(item)
        else:
            fail(
                Kind.UNSUPPORTED_OP,
                "tensor",
                f"a {type(item).__name__} is no basic index",
                hint="take(index, axis) or gather(axis, index) read by an index tensor",
            )
    return full


def _range(item: int | slice, size: int, axis: int, shape: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """(lo, hi, step, backwards) of one axis: a backward slice is its elements forwards, to be flipped."""
    if isinstance(item, int):
        if not -size <= item < size:
            fail(Kind.MALFORMED_GRAPH, "tensor", f"index {item} is out of bounds for axis {axis}", shape=shape)
        return item % size, item % size + 1, 1, False
    start, stop, step = item.indices(size)
    count = len(range(start, stop, step))
    if count == 0:
        return 0, 0, 1, False
    if step > 0:
        return start, min(stop, size), step, False
    return start + (count - 1) * step, start + 1, -step, True
