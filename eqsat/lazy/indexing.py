"""NumPy's basic indexing: which elements a key of numbers, slices, `...` and None selects from a shape."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple, NoReturn

from eqsat.lazy.argument_checks import STAGE
from ir.diagnostics import Kind, fail
from ir.grammar import with_article


class BasicIndex(NamedTuple):
    """The elements that an index selects. Per axis: lo, lo + step, … below hi, backwards along the axes `flipped`.
    step: None if 1 along every axis. shrinks: whether some elements are left out. shape: of the result, after axes
    were dropped or added."""

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    step: tuple[int, ...] | None
    shrinks: bool
    flipped: tuple[int, ...]
    shape: tuple[int, ...]


def basic_index(shape: tuple[int, ...], key: Sequence[Any]) -> BasicIndex:
    """The elements that `tensor[key]` selects from a tensor of this shape.

    Raises:
        EqsatError: MalformedGraph for an index outside the shape, UnsupportedOp for an index that is not basic.
    """
    full = _expand_dots(shape, [_item(item) for item in key])
    read = [item for item in full if item is not None]
    ranges = [_range(item, shape[axis], axis, shape) for axis, item in enumerate(read)]
    sizes = iter([-(-(hi - lo) // step) for lo, hi, step, _ in ranges])
    kept = [(item, 1 if item is None else next(sizes)) for item in full]
    steps = tuple(step for _, _, step, _ in ranges)
    return BasicIndex(
        lo=tuple(lo for lo, *_ in ranges),
        hi=tuple(hi for _, hi, *_ in ranges),
        step=steps if set(steps) != {1} else None,
        shrinks=ranges != [(0, size, 1, False) for size in shape],
        flipped=tuple(axis for axis, (*_, backwards) in enumerate(ranges) if backwards),
        shape=tuple(size for item, size in kept if not isinstance(item, int)),
    )


def _item(item: Any) -> int | slice | EllipsisType | None:
    """A checked item of a key; a number with `__index__` becomes an int."""
    if item is None or isinstance(item, EllipsisType):
        return item
    if isinstance(item, slice):
        return _check_slice(item)
    if isinstance(item, bool) or getattr(item, "shape", ()) != () or hasattr(item, "uop"):
        _not_basic(item)
    try:
        return operator.index(item)
    except TypeError:
        _not_basic(item)


def _check_slice(item: slice) -> slice:
    try:
        start, stop, step = (
            None if bound is None else operator.index(bound) for bound in (item.start, item.stop, item.step)
        )
    except TypeError:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the bounds of a slice are whole numbers or nothing")
    if step == 0:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the step of a slice is 0")
    return slice(start, stop, step)


def _not_basic(item: Any) -> NoReturn:
    boolean = isinstance(item, bool) or str(getattr(item, "dtype", "")) == "bool"
    index_text = "a boolean index" if boolean else with_article(type(item).__name__)
    by_index = "take(index, axis) or gather(axis, index) read by an index tensor"
    hint = "where(condition, a, b) keeps the shape" if boolean else by_index
    fail(Kind.UNSUPPORTED_OP, STAGE, f"{index_text} is no basic index", hint=hint)


def _expand_dots(shape: tuple[int, ...], key: Sequence[int | slice | EllipsisType | None]) -> list[int | slice | None]:
    """The key with one item per axis: `...` is replaced by full slices."""
    used = sum(isinstance(item, int | slice) for item in key)
    dots = sum(isinstance(item, EllipsisType) for item in key)
    if used > len(shape) or dots > 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{used} indices for a tensor of rank {len(shape)}", shape=shape)
    full: list[int | slice | None] = []
    for item in key if dots else (*key, Ellipsis):
        full += [slice(None)] * (len(shape) - used) if isinstance(item, EllipsisType) else [item]
    return full


def _range(item: int | slice, size: int, axis: int, shape: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """(lo, hi, step, backwards) of one axis. A backward slice lists its elements forwards, to be flipped later."""
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
