"""The elements x[…, index, …, index, …] that tensors of positions select, as NumPy and torch define them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Generic, NamedTuple, SupportsIndex, TypeVar

import numpy as np

from eqsat.lazy.argument_checks import STAGE, refuse
from eqsat.lazy.base import LazyTensor
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.lazy.movements import Movements
from ir.diagnostics import Kind, fail
from ir.dtype import i64

T = TypeVar("T", bound=Movements)


class IndexedElements(NamedTuple, Generic[T]):
    """The elements x[…, index, …, index, …].

    indexed, others: the axes of x with an index, and without one. flat: the row-major position in the indexed axes, in
    the shape that the indices have together. place: the axis of the result at which this shape stands.
    """

    indexed: tuple[int, ...]
    others: tuple[int, ...]
    flat: T
    place: int

    def rows_of(self, x: T) -> T:
        """x [indexed axes as one, others as one]."""
        ordered = x.permute(*self.indexed, *self.others)
        return ordered.reshape(math.prod(x.shape[axis] for axis in self.indexed), self.width_in(x))

    def width_in(self, x: T) -> int:
        return math.prod(x.shape[axis] for axis in self.others)

    def order(self) -> tuple[int, ...]:
        """The axes of the result in terms of [shape of the indices, others]."""
        first, rank = self.flat.ndim, self.flat.ndim + len(self.others)
        rest = range(first, rank)
        return (*rest[: self.place], *range(first), *rest[self.place :])


def select(x: T, indices: Sequence[T | None]) -> IndexedElements[T]:
    """The selection of the indices, one per axis of x from the first on; None is no index. Negative positions count
    from the end."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    indexed = tuple(axis for axis, _ in given)
    shape = broadcast_shape("index", *(index.shape for _, index in given))
    positions = [index.from_start(x.shape[axis]).cast(i64) for axis, index in given]  # type: ignore[attr-defined]
    flat = positions[0].expand(shape)
    for (axis, _), position in zip(given[1:], positions[1:], strict=True):
        flat = flat * x.shape[axis] + position
    adjacent = indexed == tuple(range(indexed[0], indexed[0] + len(indexed)))
    others = tuple(axis for axis in range(x.ndim) if axis not in indexed)
    return IndexedElements(indexed, others, flat, indexed[0] if adjacent else 0)


def selected(x: T, selection: IndexedElements[T]) -> T:
    """The elements of x, in the shape of the selection."""
    rows, width = selection.rows_of(x), selection.width_in(x)
    count = int(selection.flat.size)
    shape = (*selection.flat.shape, *(x.shape[axis] for axis in selection.others))
    if not count * width:
        return x._constant(0, x.dtype).expand(tuple(shape[axis] for axis in selection.order()))
    selected = rows.gather(0, selection.flat.reshape(count, 1).expand(count, width))  # type: ignore[attr-defined]
    result: T = selected.reshape(shape).permute(selection.order())
    return result


def is_position(item: Any) -> bool:
    """Whether an item of a key is a tensor, array or list of positions, or a mask."""
    if isinstance(item, LazyTensor | list):
        return True
    return not isinstance(item, type) and getattr(item, "ndim", 0) > 0 and hasattr(item, "dtype")


def with_positions(x: Movements, items: Sequence[Any]) -> list[Any]:
    """A key as items of one axis of x each, and None for new axes. Numbers, arrays, lists and masks become tensors of
    positions.

    Raises:
        EqsatError: UnsupportedOp for a mask that is not known, MalformedGraph for more items than axes,
            AxisSizeMismatch for a mask of another shape.
    """
    parts = [item if item is None or isinstance(item, slice | EllipsisType) else _positions(item) for item in items]
    used = sum(_axes_of(part) for part in parts)
    dots = sum(isinstance(part, EllipsisType) for part in parts)
    if used > x.ndim or dots > 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{used} indices for a tensor of rank {x.ndim}", shape=x.shape)
    full: list[Any] = []
    axis = 0
    for part in parts if dots else (*parts, Ellipsis):
        if isinstance(part, EllipsisType):
            full += [slice(None)] * (x.ndim - used)
            axis += x.ndim - used
        else:
            full += _of_one_axis(x, part, axis)
            axis += _axes_of(part)
    return full


def check_places(x: Movements, items: Sequence[Any]) -> None:
    """Raises EqsatError, MalformedGraph, for a key such as x[0, :, index]. Numbers count as positions in NumPy, so the
    axes of the index come first there; torch drops the axis of a number before it looks at the index."""

    def place(chosen: Callable[[Any], bool], counted: Sequence[Any]) -> int:
        """The axis of the result at which the shape of the positions stands."""
        at = [k for k, item in enumerate(counted) if chosen(item)]
        if at != list(range(at[0], at[0] + len(at))):
            return 0
        return sum(not isinstance(item, int | LazyTensor) for item in counted[: at[0]])

    def is_number(item: Any) -> bool:
        return isinstance(item, int) or (isinstance(item, LazyTensor) and not item.ndim)

    if not any(isinstance(item, LazyTensor) and item.ndim for item in items):
        return
    in_numpy = place(lambda item: isinstance(item, int | LazyTensor), items)
    in_torch = place(lambda item: isinstance(item, LazyTensor), [item for item in items if not is_number(item)])
    if in_numpy != in_torch:
        message = f"the axes of the index come at place {in_numpy} of the result in NumPy, and at {in_torch} in torch"
        hint = "index by the numbers first, then by the tensors: x[0][:, index]; permute gives another order"
        refuse(Kind.MALFORMED_GRAPH, "index", message, x.shape, hint=hint)


def is_index(item: Any) -> bool:
    """Whether an item of a key is a number."""
    if isinstance(item, bool | np.bool | LazyTensor) or getattr(item, "shape", ()) != ():
        return False
    return isinstance(item, SupportsIndex)


def refuse_mask() -> None:
    """Raises EqsatError, UnsupportedOp: a mask of values that are not known."""
    message = "the shape of x[mask] depends on how many elements of the mask are True"
    hint = "where(mask, x, value) or x.masked_fill(~mask, value) keeps the shape; a mask that is a NumPy array is known"
    fail(Kind.UNSUPPORTED_OP, STAGE, message, hint=hint)


def _axes_of(part: Any) -> int:
    """How many axes an item of a key reads."""
    if isinstance(part, np.ndarray) and part.dtype == bool:
        return part.ndim
    return 0 if part is None or isinstance(part, EllipsisType) else 1


def _of_one_axis(x: Movements, part: Any, axis: int) -> list[Any]:
    """The items of one axis each that an item of a key stands for, which reads x from this axis on."""
    if not isinstance(part, np.ndarray):
        return [part]
    if part.dtype != bool:
        return [x._of(part)]
    axes = x.shape[axis : axis + part.ndim]
    if part.shape != axes:
        refuse(Kind.AXIS_SIZE_MISMATCH, "mask", "the mask has another shape", axes, part.shape, hint="a size per axis")
    return [x._constant(places.astype(np.int64)) for places in np.nonzero(part)]


def _positions(item: Any) -> Any:
    """A tensor of positions; or an array of positions or bools that is known."""
    if is_index(item):
        return operator.index(item)
    if isinstance(item, LazyTensor) and item.array is None:
        if item.dtype.is_bool:
            refuse_mask()
        if not item.dtype.is_int:
            fail(Kind.DTYPE_MISMATCH, STAGE, f"positions are integers, not {item.dtype}", hint='index.cast("i64")')
        return item
    try:
        array = np.asarray(item.array if isinstance(item, LazyTensor) else item)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if not array.size:
        return array.astype(np.int64)
    if array.dtype.kind not in "iub" or (array.dtype == bool and not array.ndim):
        what = {"O": type(item).__name__, "b": "a bool"}.get(array.dtype.kind, str(array.dtype))
        fail(
            Kind.UNSUPPORTED_OP,
            STAGE,
            f"positions are integers, not {what}",
            hint="numbers, slices, integers in arrays",
        )
    return array
