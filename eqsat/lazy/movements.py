"""Methods of lazy tensors that rearrange elements, with NumPy's conventions for shapes and axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, Self, SupportsIndex, Unpack, overload

from eqsat.lazy.argument_checks import (
    STAGE,
    Axis,
    Number,
    axes_in,
    axis_in,
    integers,
    pairs,
    refuse,
    spread,
)
from eqsat.lazy.bits import Bits
from eqsat.lazy.indexing import basic_index
from eqsat.lazy.keyword_names import Dim, takes_torchs_names
from eqsat.lazy.two_meanings import Library, two_meanings
from ir.diagnostics import Kind, fail
from ir.grammar import with_article

Key = SupportsIndex | slice | EllipsisType | None


def _transpose_without_keyword(x: Any, *axes: Any) -> Library | None:
    """NumPy has no two axes of more than two, torch no other number of axes."""
    if len(axes) != 2 or x.ndim < 2:
        return "NumPy"
    swapped = tuple(axis_in(axis, x.shape) for axis in axes) == (1, 0)
    return "torch" if x.ndim > 2 else "NumPy" if swapped else None


class Movements(Bits):
    """Base class of `Tensor`. A method applies movement uops, or returns the tensor itself if nothing moves."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        """In row-major order; one size may be -1."""
        wanted = spread(shape, "a shape")
        if -1 in wanted:
            known = math.prod(size for size in wanted if size != -1)
            if wanted.count(-1) > 1 or known == 0 or self.size % known:
                refuse(
                    Kind.AXIS_SIZE_MISMATCH,
                    "RESHAPE",
                    "the size for -1 is not determined",
                    self.shape,
                    wanted,
                    hint="the sizes; one of them may be -1",
                )
            wanted = tuple(self.size // known if size == -1 else size for size in wanted)
        return self._move("RESHAPE", wanted == self.shape, result_shape=wanted)

    def numel(self) -> int:
        return int(self.size)

    def dim(self) -> int:
        return self.ndim

    def view(self, *shape: Any) -> Self:
        """torch's name of `reshape`, and with a dtype in place of the shape of `bitcast`."""
        if len(shape) == 1 and not isinstance(shape[0], list | tuple | SupportsIndex):
            return self.bitcast(shape[0])
        return self.reshape(*shape)

    def reshape_as(self, other: Any) -> Self:
        return self.reshape(self._of(other).shape)

    view_as = reshape_as

    def permute(self, *axes: Any) -> Self:
        """Axis i of the result is axis `axes[i]`."""
        order = tuple(axis_in(axis, self.shape) for axis in spread(axes, "a permutation"))
        return self._move("PERMUTE", order == tuple(range(self.ndim)), perm=order)

    @overload
    def transpose(self, *axes: Any) -> Self: ...

    @overload
    def transpose(self, *, axes: Any) -> Self: ...

    @overload
    def transpose(self, *, dim0: SupportsIndex, dim1: SupportsIndex) -> Self: ...

    @two_meanings(
        lambda x, dim0, dim1: x.swapaxes(dim0, dim1),
        _transpose_without_keyword,
        "transpose(0, 1) of a matrix leaves it as it is in NumPy, and swaps the axes in torch",
        "permute(0, 1), or swapaxes(0, 1)",
    )
    def transpose(self, *axes: Any, **keywords: Any) -> Self:
        """The axes in another order, as in NumPy; without axes, their order is reversed. Two axes of more are swapped,
        as in torch."""
        axes = (keywords["axes"],) if keywords else axes
        given = axes and not (len(axes) == 1 and axes[0] is None)
        return self.permute(*axes) if given else self.permute(tuple(reversed(range(self.ndim))))

    @takes_torchs_names
    def swapaxes(self, a: SupportsIndex, b: SupportsIndex) -> Self:
        """With two axes swapped."""
        order = list(range(self.ndim))
        first, second = axis_in(a, self.shape), axis_in(b, self.shape)
        order[first], order[second] = order[second], order[first]
        return self.permute(order)

    swapdims = swapaxes

    @takes_torchs_names
    def moveaxis(self, source: Axis, destination: Axis) -> Self:
        """With the axes `source` at the places `destination`, as numpy.moveaxis; the others keep their order."""
        sources, places = ([axis_in(axis, self.shape) for axis in _listed(axes)] for axes in (source, destination))
        if len(set(sources)) != len(sources) or len(set(places)) != len(places) or len(sources) != len(places):
            message = f"axes {sources} cannot move to {places}"
            refuse(Kind.MALFORMED_GRAPH, "moveaxis", message, self.shape, hint="as many places as axes, each once")
        order = [axis for axis in range(self.ndim) if axis not in sources]
        for place, axis in sorted(zip(places, sources, strict=True)):
            order.insert(place, axis)
        return self.permute(order)

    movedim = moveaxis

    def t(self) -> Self:
        """A matrix with its axes swapped; a tensor of fewer axes stays."""
        if self.ndim > 2:
            refuse(Kind.AXIS_SIZE_MISMATCH, "t", "there are more than two axes", self.shape, hint="swapaxes(-1, -2)")
        return self.permute(tuple(reversed(range(self.ndim))))

    @property
    def T(self) -> Self:  # noqa: N802 - NumPy's name
        """With the order of the axes reversed."""
        return self.permute(tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Self:  # noqa: N802 - NumPy's name
        """With the last two axes swapped."""
        return self.swapaxes(-1, -2)

    def ravel(self) -> Self:
        """With all axes merged into one."""
        return self.flatten()

    @takes_torchs_names
    def unflatten(self, axis: SupportsIndex, sizes: Sequence[int], **torch: Unpack[Dim]) -> Self:
        """With an axis split into axes of these sizes; one of them may be -1."""
        place = axis_in(axis, self.shape)
        split = integers(sizes, "sizes")
        known = math.prod(size for size in split if size != -1)
        whole = [self.shape[place] // known if size == -1 and known else size for size in split]
        if split.count(-1) > 1 or math.prod(whole) != self.shape[place]:
            message = f"an axis of {self.shape[place]} is not split into {list(split)}"
            refuse(Kind.AXIS_SIZE_MISMATCH, "unflatten", message, self.shape, hint="sizes whose product is the size")
        return self.reshape(*self.shape[:place], *whole, *self.shape[place + 1 :])

    def expand_as(self, other: Any) -> Self:
        return self.expand(self._of(other).shape)

    def expand(self, *shape: Any) -> Self:
        """Broadcasts to `shape` (aligned at the right); -1 keeps a size."""
        wanted = spread(shape, "a shape")
        lead = len(wanted) - self.ndim
        if lead < 0:
            refuse(
                Kind.BROADCAST_MISMATCH,
                "EXPAND",
                "cannot drop axes",
                self.shape,
                wanted,
                hint="squeeze or reshape first",
            )
        aligned = self.reshape((1,) * lead + self.shape)
        wanted = tuple(have if want == -1 else want for want, have in zip(wanted, aligned.shape, strict=True))
        return aligned._move("EXPAND", wanted == aligned.shape, result_shape=wanted)

    def pad(self, widths: Sequence[Sequence[int]], value: Number = 0) -> Self:
        """Adds elements of this value; `widths` is one (before, after) per axis, in elements."""
        padding = pairs(widths, "widths")
        if not isinstance(value, bool | int | float):
            fail(
                Kind.DTYPE_MISMATCH,
                STAGE,
                f"a pad holds a Python number, not {with_article(type(value).__name__)}",
                op="PAD",
            )
        still = len(padding) == self.ndim and not any(map(any, padding))
        return self._move("PAD", still, pad=padding, value=value)

    @takes_torchs_names
    def flip(self, axis: Axis = None, **torch: Unpack[Dim]) -> Self:
        """Backwards along these axes (None: along all)."""
        axes = axes_in(axis, self.shape)
        return self._move("FLIP", not axes, axes=axes)

    def shrink(self, lo: Sequence[int], hi: Sequence[int], step: Sequence[int] | None = None) -> Self:
        """The elements lo, lo + step, … below hi along each axis."""
        steps = {} if step is None else {"step": integers(step, "step")}
        return self._move("SHRINK", False, lo=integers(lo, "lo"), hi=integers(hi, "hi"), **steps)

    def __getitem__(self, key: Key | tuple[Key, ...]) -> Self:
        """NumPy's basic indexing: integers, slices with any step, `...` and None."""
        return self._basic(key if isinstance(key, tuple) else (key,))

    def _basic(self, key: tuple[Key, ...]) -> Self:
        index = basic_index(self.shape, key)
        part = self.shrink(index.lo, index.hi, index.step) if index.shrinks else self
        part = part.flip(index.flipped) if index.flipped else part
        return part.reshape(index.shape)

    def __len__(self) -> int:
        if not self.shape:
            fail(Kind.UNSUPPORTED_OP, STAGE, "a tensor of rank 0 has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        """The tensors along the first axis."""
        return (self[position] for position in range(len(self)))

    @takes_torchs_names
    def squeeze(self, axis: Axis = None, **torch: Unpack[Dim]) -> Self:
        """Without these axes, which must have size 1; None drops all axes of size 1."""
        ones = tuple(position for position, size in enumerate(self.shape) if size == 1)
        drop = ones if axis is None else axes_in(axis, self.shape)
        if not set(drop) <= set(ones):
            message = f"of axes {list(drop)} not all have size 1"
            refuse(
                Kind.AXIS_SIZE_MISMATCH, "squeeze", message, self.shape, hint="axes of size 1; reshape merges others"
            )
        return self.reshape([size for position, size in enumerate(self.shape) if position not in drop])

    @takes_torchs_names
    def unsqueeze(self, axis: SupportsIndex, **torch: Unpack[Dim]) -> Self:
        """With a new axis of size 1 at position `axis` of the result."""
        place = axis_in(axis, (*self.shape, 1))
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    @takes_torchs_names
    def flatten(self, start: int = 0, end: int = -1) -> Self:
        """With the axes from `start` to `end` (inclusive) merged into one."""
        if not self.shape:
            return self.reshape(1)
        first, last = axis_in(start, self.shape), axis_in(end, self.shape)
        if first > last:
            message = f"axis {start} comes after axis {end}"
            refuse(Kind.MALFORMED_GRAPH, "flatten", message, self.shape, hint="the first axis to merge, then the last")
        fused = math.prod(self.shape[first : last + 1])
        return self.reshape((*self.shape[:first], fused, *self.shape[last + 1 :]))


def _listed(axes: Any) -> list[Any]:
    return list(axes) if isinstance(axes, list | tuple) else [axes]
