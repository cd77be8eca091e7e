"""Methods of lazy tensors that rearrange elements, with NumPy's conventions for shapes and axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from eqsat.lazy.argument_checks import (
    STAGE,
    Axis,
    Number,
    Sizes,
    axes_in,
    axis_in,
    integer,
    integers,
    pairs,
    refuse,
    sizes,
    spread,
)
from eqsat.lazy.indexing import basic_index
from ir.diagnostics import Kind, fail
from ir.grammar import with_article, with_count

Key = SupportsIndex | slice | EllipsisType | None


class Movements:
    """Base class of `Tensor`. A method applies movement uops, or returns the tensor itself if nothing moves."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]: ...

        @property
        def ndim(self) -> int: ...

        @property
        def size(self) -> int: ...

        def _move(self, uop: str, still: bool, /, **arg: Any) -> Self:
            """The uop applied to this tensor; the tensor itself if `still`, that is, if nothing moves."""
            ...

        def take(self, index: Any, axis: int = 0) -> Self: ...

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

    def permute(self, *axes: Any) -> Self:
        """Axis i of the result is axis `axes[i]`."""
        order = tuple(axis_in(axis, self.shape) for axis in spread(axes, "a permutation"))
        return self._move("PERMUTE", order == tuple(range(self.ndim)), perm=order)

    def transpose(self, *axes: Any) -> Self:
        """As in NumPy: without axes, their order is reversed."""
        given = axes and not (len(axes) == 1 and axes[0] is None)
        return self.permute(*axes) if given else self.permute(tuple(reversed(range(self.ndim))))

    def swapaxes(self, a: int, b: int) -> Self:
        order = list(range(self.ndim))
        first, second = axis_in(a, self.shape), axis_in(b, self.shape)
        order[first], order[second] = order[second], order[first]
        return self.permute(order)

    @property
    def T(self) -> Self:  # noqa: N802 - NumPy's name
        return self.transpose()

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

    def flip(self, axis: Axis = None) -> Self:
        axes = axes_in(axis, self.shape)
        return self._move("FLIP", not axes, axes=axes)

    def shrink(self, lo: Sequence[int], hi: Sequence[int], step: Sequence[int] | None = None) -> Self:
        """The elements lo, lo + step, … below hi along each axis."""
        steps = {} if step is None else {"step": integers(step, "step")}
        return self._move("SHRINK", False, lo=integers(lo, "lo"), hi=integers(hi, "hi"), **steps)

    def __getitem__(self, key: Key | tuple[Key, ...]) -> Self:
        """NumPy's basic indexing: integers, slices with any step, `...` and None."""
        index = basic_index(self.shape, key if isinstance(key, tuple) else (key,))
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

    def squeeze(self, axis: Axis = None) -> Self:
        """Without these axes, which must have size 1; None drops all axes of size 1."""
        ones = tuple(position for position, size in enumerate(self.shape) if size == 1)
        drop = ones if axis is None else axes_in(axis, self.shape)
        if not set(drop) <= set(ones):
            message = f"of axes {list(drop)} not all have size 1"
            refuse(
                Kind.AXIS_SIZE_MISMATCH, "squeeze", message, self.shape, hint="axes of size 1; reshape merges others"
            )
        return self.reshape([size for position, size in enumerate(self.shape) if position not in drop])

    def unsqueeze(self, axis: int) -> Self:
        """With a new axis of size 1 at position `axis` of the result."""
        place = axis_in(axis, (*self.shape, 1))
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

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

    # several copies, and parts

    def tile(self, *reps: Any) -> Self:
        """`reps` copies along each axis, as numpy.tile: the shape and `reps` are aligned at the right."""
        counts = spread(reps, "reps")
        if any(count < 0 for count in counts):
            fail(Kind.MALFORMED_GRAPH, STAGE, f"{list(counts)} copies", op="tile", hint="numbers from 0 on")
        rank = max(self.ndim, len(counts))
        counts, shape = (1,) * (rank - len(counts)) + counts, (1,) * (rank - self.ndim) + self.shape
        if all(count == 1 for count in counts):
            return self.reshape(shape)
        apart = self.reshape([size for axis in shape for size in (1, axis)])
        copies = apart.expand([size for both in zip(counts, shape, strict=True) for size in both])
        return copies.reshape([count * size for count, size in zip(counts, shape, strict=True)])

    def repeat(self, repeats: Sizes, axis: int | None = None) -> Self:
        """Each element `repeats` times in a row along `axis` (None: of the flattened tensor), as numpy.repeat. A list
        has one number per element."""
        if axis is None:
            return self.flatten().repeat(repeats, 0)
        place = axis_in(axis, self.shape)
        counts = sizes(repeats, "repeats")
        if any(count < 0 for count in counts) or len(counts) not in (1, self.shape[place]):
            hint = "one number from 0 on, or one per element"
            message = f"repeats {list(counts)} for {with_count(self.shape[place], 'element')}"
            refuse(Kind.AXIS_SIZE_MISMATCH, "repeat", message, self.shape, hint=hint)
        if len(set(counts)) > 1:
            index = [position for position, count in enumerate(counts) for _ in range(count)]
            return self.take(index, place)
        count, before, after = counts[0] if counts else 1, self.shape[:place], self.shape[place + 1 :]
        size = self.shape[place]
        return self.reshape(*before, size, 1, *after).expand(*before, size, count, *after).flatten(place, place + 1)

    def roll(self, shift: Sizes, axis: Axis = None) -> Self:
        """The elements moved by `shift` places along `axis` (None: in the flattened tensor), as numpy.roll: elements
        beyond the end come back at the start."""
        if axis is None:
            return self.flatten().roll(sum(sizes(shift, "shift")), 0).reshape(self.shape)
        axes = [axis_in(item, self.shape) for item in (axis if isinstance(axis, list | tuple) else [axis])]
        shifts = sizes(shift, "shift")
        if 1 not in (len(shifts), len(axes)) and len(shifts) != len(axes):
            message = f"{with_count(len(shifts), 'shift')} along {with_count(len(axes), 'axis', 'axes')}"
            refuse(Kind.MALFORMED_GRAPH, "roll", message, self.shape, hint="one shift per axis, or one for all")
        count = max(len(shifts), len(axes))
        moved = self
        for place, places in zip(axes * (count // len(axes)), shifts * (count // len(shifts)), strict=True):
            moved = moved._roll_axis(place, places)
        return moved

    def _roll_axis(self, axis: int, shift: int) -> Self:
        """Two copies side by side, cut where the rolled axis begins."""
        size = self.shape[axis]
        if not size or not shift % size:
            return self
        start = size - shift % size
        twice = self.tile([2 if place == axis else 1 for place in range(self.ndim)])
        return twice[(slice(None),) * axis + (slice(start, start + size),)]

    def split(self, sections: Sizes, axis: int = 0) -> list[Self]:
        """As numpy.split: that many equal parts along `axis`, or the parts between the positions in a list."""
        place = axis_in(axis, self.shape)
        size = self.shape[place]
        if isinstance(sections, list | tuple):
            bounds = [0, *integers(sections, "sections"), size]
        else:
            count = integer(sections, "sections")
            if count < 1 or size % count:
                message = f"{with_count(size, 'element')} along axis {axis} make no {count} equal parts"
                refuse(Kind.AXIS_SIZE_MISMATCH, "split", message, self.shape, hint="the positions between the parts")
            bounds = list(range(0, size + 1, size // count)) if size else [0] * (count + 1)
        part = (slice(None),) * place
        return [self[(*part, slice(start, stop))] for start, stop in pairwise(bounds)]
