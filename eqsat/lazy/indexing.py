"""NumPy's basic indexing as SHRINK, FLIP and RESHAPE, and the positions that an index tensor names."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NoReturn

from eqsat.lazy.written import STAGE
from ir.diagnostics import Kind, fail
from ir.grammar import with_article

if TYPE_CHECKING:
    from eqsat.tensor import Tensor


def basic(tensor: Tensor, key: Sequence[Any]) -> Tensor:
    """`tensor[key]`: first the ranges and their steps, then the reversed axes, then axes dropped and added.

    Raises:
        EqsatError: MalformedGraph for an index that the shape has not, UnsupportedOp for one that is not basic.
    """
    full = _whole(tensor, [_item(each) for each in key])
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


def wrapped(index: Tensor, size: int) -> Tensor:
    """An index of positions along an axis of `size`, of which the negative count from the end, as one of positions from
    the start.

    Raises:
        EqsatError: MalformedGraph for a constant that lies outside.
    """
    from eqsat.tensor import constant, where

    if not index.dtype.is_int or (index.array is None and not index.dtype.is_signed):
        return index
    if index.array is None:
        wide = index if size <= index.dtype.highest else index.cast("i64")
        return where(wide < 0, wide + size, wide)
    outside = index.array[(index.array < -size) | (index.array >= size)]
    if outside.size:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"index {outside[0]} is out of bounds for an axis of {size} elements")
    return constant(index.array.astype("i8") % size, name=index.arg.get("tensor_id")) if index.size else index


def _item(item: Any) -> int | slice | EllipsisType | None:
    """One basic index; numbers with `__index__` count as integers."""
    if item is None or isinstance(item, EllipsisType):
        return item
    if isinstance(item, slice):
        return _checked_slice(item)
    if isinstance(item, bool) or getattr(item, "shape", ()) != () or hasattr(item, "uop"):
        _not_basic(item)
    try:
        return operator.index(item)
    except TypeError:
        _not_basic(item)


def _checked_slice(item: slice) -> slice:
    try:
        start, stop, step = (
            None if each is None else operator.index(each) for each in (item.start, item.stop, item.step)
        )
    except TypeError:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the bounds of a slice are whole numbers or nothing")
    if step == 0:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the step of a slice is 0")
    return slice(start, stop, step)


def _not_basic(item: Any) -> NoReturn:
    boolean = isinstance(item, bool) or str(getattr(item, "dtype", "")) == "bool"
    what = "a boolean index" if boolean else with_article(type(item).__name__)
    by_index = "take(index, axis) or gather(axis, index) read by an index tensor"
    hint = "where(condition, a, b) keeps the shape" if boolean else by_index
    fail(Kind.UNSUPPORTED_OP, STAGE, f"{what} is no basic index", hint=hint)


def _whole(tensor: Tensor, key: Sequence[int | slice | EllipsisType | None]) -> list[int | slice | None]:
    """The key with `...` spelled out and every axis present."""
    used = sum(isinstance(item, int | slice) for item in key)
    dots = sum(isinstance(item, EllipsisType) for item in key)
    if used > tensor.ndim or dots > 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{used} indices for a tensor of rank {tensor.ndim}", shape=tensor.shape)
    full: list[int | slice | None] = []
    for item in key if dots else (*key, Ellipsis):
        full += [slice(None)] * (tensor.ndim - used) if isinstance(item, EllipsisType) else [item]
    return full


def _range(item: int | slice, size: int, axis: int, shape: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """(lo, hi, step, backwards) of one axis: a backward slice is its elements forwards, to be flipped."""
    if isinstance(item, int):
        if not -size <= item < size:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"index {item} is out of bounds for axis {axis}", shape=shape)
        return item % size, item % size + 1, 1, False
    start, stop, step = item.indices(size)
    count = len(range(start, stop, step))
    if count == 0:
        return 0, 0, 1, False
    if step > 0:
        return start, min(stop, size), step, False
    return start + (count - 1) * step, start + 1, -step, True
