"""Methods of lazy tensors that rearrange elements, with NumPy's conventions for shapes and axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from eqsat.lazy.argument_checks import STAGE, Axis, Number, axes_in, axis_in, integers, pairs, refuse, spread
from eqsat.lazy.indexing import basic_index
from ir.diagnostics import Kind, fail
from ir.grammar import with_article

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
