"""Methods of lazy tensors that copy a tensor several times, or cut it into parts."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, Self, SupportsIndex, Unpack, overload

from eqsat.lazy.argument_checks import STAGE, Axis, Sizes, axis_in, integer, integers, refuse, sizes, spread
from eqsat.lazy.keyword_names import Dim, takes_torchs_names
from eqsat.lazy.lookups import Lookups
from eqsat.lazy.two_meanings import Library, two_meanings
from ir.diagnostics import Kind, fail
from ir.grammar import with_count


def _repeat_without_keyword(x: Any, *repeats: Any) -> Library | None:
    """NumPy takes one or two arguments, torch at least as many numbers as there are axes."""
    numbers = len(repeats[0]) if len(repeats) == 1 and isinstance(repeats[0], list | tuple) else len(repeats)
    if len(repeats) > 2:
        return "torch"
    return "NumPy" if numbers < x.ndim else None


def _repeat_in_torch(x: Any, *repeats: Any, sizes: Any = None) -> Any:
    counts = spread(repeats if sizes is None else (sizes,), "sizes")
    if len(counts) < x.ndim:
        refuse(
            Kind.AXIS_SIZE_MISMATCH, "repeat", "there are more axes than sizes", x.shape, counts, hint="one per axis"
        )
    return x.tile(counts)


def _split_without_keyword(*_: Any) -> Library | None:
    return None


def _split_in_torch(x: Any, split_size: Sizes, dim: SupportsIndex = 0) -> list[Any]:
    """CopiesAndParts of this size along an axis, the last one smaller if need be; a list has the size of each part."""
    place = axis_in(dim, x.shape)
    size = x.shape[place]
    if isinstance(split_size, list | tuple):
        lengths = integers(split_size, "split_size")
        if sum(lengths) != size or min(lengths, default=0) < 0:
            message = f"parts of {list(lengths)} elements make no {size}"
            refuse(Kind.AXIS_SIZE_MISMATCH, "split", message, x.shape, hint="sizes whose sum is the size of the axis")
        return x._between([0, *accumulate(lengths)], place)  # type: ignore[no-any-return]
    length = integer(split_size, "split_size")
    if length < 1:
        refuse(Kind.MALFORMED_GRAPH, "split", f"parts of {length} elements", x.shape, hint="a size from 1 on")
    return x._between([*range(0, size, length), size] if size else [0, 0], place)  # type: ignore[no-any-return]


class CopiesAndParts(Lookups):
    """Base class of `Tensor`."""

    __slots__ = ()

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

    @overload
    def repeat(self, repeats: Sizes, axis: SupportsIndex | None) -> Self: ...

    @overload
    def repeat(self, *sizes: Any) -> Self: ...

    @two_meanings(
        _repeat_in_torch,
        _repeat_without_keyword,
        "repeat(2) gives each element twice in NumPy, and the whole tensor twice in torch",
        "repeat(2, axis=0) or repeat_interleave(2) of elements, tile(2) of the tensor",
    )
    def repeat(self, repeats: Sizes, axis: SupportsIndex | None = None) -> Self:
        """As numpy.repeat, which is `repeat_interleave`; three numbers and more are torch's, which is `tile`."""
        return self.repeat_interleave(repeats, axis)

    @takes_torchs_names
    def repeat_interleave(self, repeats: Sizes, axis: SupportsIndex | None = None, **torch: Unpack[Dim]) -> Self:
        """Repeats every element `repeats` times in a row along `axis` (None: of the flattened tensor), as numpy.repeat.
        A list has one number per element."""
        if axis is None:
            return self.flatten().repeat_interleave(repeats, 0)
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

    @takes_torchs_names
    def roll(self, shift: Sizes, axis: Axis = None, **torch: Unpack[Dim]) -> Self:
        """The elements moved by `shift` places along `axis` (None: in the flattened tensor), as numpy.roll: elements
        beyond the end come back at the start."""
        if axis is None:
            return self.flatten().roll(sum(sizes(shift, "shift")), 0).reshape(self.shape)
        axes = [axis_in(item, self.shape) for item in (axis if isinstance(axis, list | tuple) else [axis])]
        shifts = sizes(shift, "shift")
        nothing = not shifts or not axes  # NumPy then moves no element, torch moves those of the flattened tensor
        if nothing or (1 not in (len(shifts), len(axes)) and len(shifts) != len(axes)):
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

    @overload
    def split(self, sections: Sizes, *, axis: SupportsIndex) -> list[Self]: ...

    @overload
    def split(self, *, sections: Sizes) -> list[Self]: ...

    @overload
    def split(self, split_size: Sizes, *, dim: SupportsIndex) -> list[Self]: ...

    @overload
    def split(self, *, split_size: Sizes) -> list[Self]: ...

    @two_meanings(
        _split_in_torch,
        _split_without_keyword,
        "split(2) makes two parts in NumPy, and parts of two elements in torch",
        "split(2, axis=0) or chunk(2) for two parts, split(2, dim=0) for parts of two elements",
    )
    def split(self, sections: Sizes, axis: SupportsIndex = 0) -> list[Self]:
        """With `axis=` as numpy.split: that many equal parts, or the parts between the positions in a list. With `dim=`
        as torch.split: parts of that size, or of the sizes in a list."""
        place = axis_in(axis, self.shape)
        size = self.shape[place]
        if isinstance(sections, list | tuple):
            return self._between([0, *integers(sections, "sections"), size], place)
        count = integer(sections, "sections")
        if count < 1 or size % count:
            message = f"{with_count(size, 'element')} along axis {axis} make no {count} equal parts"
            refuse(Kind.AXIS_SIZE_MISMATCH, "split", message, self.shape, hint="the positions between the parts")
        return self._between(range(0, size + 1, size // count) if size else [0] * (count + 1), place)

    @takes_torchs_names
    def chunk(self, chunks: SupportsIndex, axis: SupportsIndex = 0, **torch: Unpack[Dim]) -> list[Self]:
        """torch's parts of one size, at most `chunks` of them; the last one may be smaller."""
        place, count = axis_in(axis, self.shape), integer(chunks, "chunks")
        if count < 1:
            refuse(Kind.MALFORMED_GRAPH, "chunk", f"{count} parts", self.shape, hint="a number from 1 on")
        size = self.shape[place]
        if not size:
            return [self] * count
        return self._between([*range(0, size, -(-size // count)), size], place)

    @takes_torchs_names
    def unbind(self, axis: SupportsIndex = 0, **torch: Unpack[Dim]) -> list[Self]:
        """The tensors along an axis, without it."""
        place = axis_in(axis, self.shape)
        return [self.select(place, position) for position in range(self.shape[place])]

    @takes_torchs_names
    def select(self, axis: SupportsIndex, index: SupportsIndex, **torch: Unpack[Dim]) -> Self:
        """The tensor at a position along an axis, without the axis."""
        return self[(*(slice(None),) * axis_in(axis, self.shape), index)]

    @takes_torchs_names
    def narrow(self, axis: SupportsIndex, start: SupportsIndex, length: SupportsIndex, **torch: Unpack[Dim]) -> Self:
        """The `length` elements from `start` on along an axis."""
        place = axis_in(axis, self.shape)
        first, count = integer(start, "start"), integer(length, "length")
        first += self.shape[place] if first < 0 else 0
        if not 0 <= first <= first + count <= self.shape[place]:
            message = f"no {count} elements from {first} on along axis {place}"
            refuse(Kind.AXIS_SIZE_MISMATCH, "narrow", message, self.shape, hint="start + length within the axis")
        return self._between([first, first + count], place)[0]

    @takes_torchs_names
    def diff(self, n: SupportsIndex = 1, axis: SupportsIndex = -1, **torch: Unpack[Dim]) -> Self:
        """The differences of neighbours along an axis, n times; of bools, whether neighbours differ."""
        place, times = axis_in(axis, self.shape), integer(n, "n")
        if times < 0:
            refuse(Kind.MALFORMED_GRAPH, "diff", f"differences {times} times", self.shape, hint="a number from 0 on")
        if not times or not self.shape[place]:
            return self
        size = self.shape[place]
        (later,), (earlier,) = self._between([1, size], place), self._between([0, size - 1], place)
        return (later.ne(earlier) if self.dtype.is_bool else later - earlier).diff(times - 1, place)

    @takes_torchs_names
    def unfold(self, axis: SupportsIndex, size: SupportsIndex, step: SupportsIndex, **torch: Unpack[Dim]) -> Self:
        """torch's windows of `size` elements along an axis, every `step` elements; their elements are the last axis."""
        place, width, stride = axis_in(axis, self.shape), integer(size, "size"), integer(step, "step")
        if not 0 < width <= self.shape[place] or stride < 1:
            message = f"no windows of {width} elements every {stride} along axis {place}"
            hint = "a size within the axis, and a step from 1 on; nn.unfold reads windows of images"
            refuse(Kind.AXIS_SIZE_MISMATCH, "unfold", message, self.shape, hint=hint)
        arg = {"kernel": (width,), "stride": (stride,), "dilation": (1,)}
        windows = self._make("POOL", [self.swapaxes(place, -1)], arg)
        order = list(range(self.ndim))
        order[place], order[-1] = order[-1], order[place]
        return windows.permute(*order, self.ndim)

    def _between(self, bounds: Any, axis: int) -> list[Self]:
        """The parts between neighbouring bounds along an axis."""
        before = (slice(None),) * axis
        return [self._basic((*before, slice(start, stop))) for start, stop in pairwise(bounds)]

    @takes_torchs_names
    def tril(self, diagonal: SupportsIndex = 0) -> Self:
        """0 above the diagonal of the last two axes."""
        return self._triangle("tril", diagonal)

    @takes_torchs_names
    def triu(self, diagonal: SupportsIndex = 0) -> Self:
        """0 below the diagonal of the last two axes."""
        return self._triangle("triu", diagonal)

    def _triangle(self, op: str, diagonal: SupportsIndex) -> Self:
        if self.ndim < 2:
            refuse(Kind.AXIS_SIZE_MISMATCH, op, "a triangle has two axes", self.shape, hint="a matrix, or several")
        offset, grid = integer(diagonal, "diagonal"), self.shape[-2:]
        row, column = self._positions(grid, 0), self._positions(grid, 1)
        kept = column <= row + offset if op == "tril" else column >= row + offset
        return self._choose(kept, self, 0).cast(self.dtype)
