"""Methods of lazy tensors that read and write elements at given positions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn, Self, SupportsIndex, Unpack

from eqsat.lazy.argument_checks import STAGE, axis_in, is_number, one_of, refuse
from eqsat.lazy.base import LazyTensor
from eqsat.lazy.broadcasting import broadcast_shape
from eqsat.lazy.keyword_names import Dim, takes_torchs_names
from eqsat.lazy.movements import Movements
from eqsat.lazy.named_operators import NamedOperators
from eqsat.lazy.selection import check_places, is_position, select, selected, with_positions
from ir.diagnostics import Kind, fail

_COMBINATIONS: Mapping[str, str] = MappingProxyType(
    {"none": "LAST", "add": "SUM", "mul": "PROD", "max": "MAX", "min": "MIN"}
)
"""The op of a SCATTER for each reduction."""


class Lookups(NamedOperators, Movements):
    """Base class of `Tensor`."""

    __slots__ = ()

    @takes_torchs_names
    def gather(self, axis: SupportsIndex, index: Any, **torch: Unpack[Dim]) -> Self:
        """As torch.gather: result[i, j] = self[index[i, j], j] for axis 0; an index outside is clamped to the nearest
        end."""
        return self._make("GATHER", [self, self._of(index)], {"axis": axis_in(axis, self.shape)})

    @takes_torchs_names
    def scatter(
        self, axis: SupportsIndex, index: Any, updates: Any, reduction: str = "none", **torch: Unpack[Dim]
    ) -> Self:
        """As torch.scatter: the tensor with `updates` put in, result[index[i, j], j] = updates[i, j] for axis 0. Index
        and updates have one shape, which is no larger than the tensor's off the axis; updates may be broadcast to it,
        and may be a number. A position below 0 or beyond the axis changes nothing.

        reduction: "none" keeps the last update of an element; "add", "mul", "max" and "min" combine the element with
        all its updates, one after another in the order of the index, and round each result. So the result has the same
        bits on every machine and with every number of threads. The work grows with the elements and the updates.
        """
        place, at = axis_in(axis, self.shape), self._of(index)
        own = [size for position, size in enumerate(self.shape) if position != place]
        theirs = [size for position, size in enumerate(at.shape) if position != place]
        if at.ndim != self.ndim or any(want > have for want, have in zip(theirs, own, strict=True)):
            message = "the index has the tensor's rank, and is no larger off the axis"
            refuse(Kind.AXIS_SIZE_MISMATCH, "scatter", message, self.shape, at.shape, hint="pad or slice the index")
        combination = _COMBINATIONS[one_of(reduction, tuple(_COMBINATIONS), "the reduction of a scatter")]
        values = self._constant(updates, self.dtype) if is_number(updates) else self._of(updates)
        values = values.expand(at.shape)
        wider = [(0, 0 if k == place else size - at.shape[k]) for k, size in enumerate(self.shape)]
        if any(high for _, high in wider):
            at, values = at.cast("i64").pad(wider, -1), values.pad(wider)
        return self._make("SCATTER", [self, at, values], {"axis": place, "op": combination})

    @takes_torchs_names
    def take(self, index: Any, axis: SupportsIndex | None = None, **torch: Unpack[Dim]) -> Self:
        """As numpy.take: whole slices along `axis` (None: elements of the flattened tensor), in the shape of `index`.
        Negative positions count from the end. Positions outside are an error in a constant; others are clamped to the
        nearest end at run time."""
        if axis is None:
            return self.flatten().take(index, 0)
        place = axis_in(axis, self.shape)
        where_ = self._of(index).from_start(self.shape[place])
        before, after = self.shape[:place], self.shape[place + 1 :]
        flat = where_.reshape((1,) * len(before) + (where_.size,) + (1,) * len(after))
        picked = self.gather(place, flat.expand(*before, where_.size, *after))
        return picked.reshape(*before, *where_.shape, *after)

    @takes_torchs_names
    def index_select(self, axis: SupportsIndex, index: Any, **torch: Unpack[Dim]) -> Self:
        """torch's order of the arguments of `take`; the index has one axis."""
        at = self._of(index)
        if at.ndim > 1:
            refuse(
                Kind.AXIS_SIZE_MISMATCH, "index_select", "the index has one axis", at.shape, hint="take(index, axis)"
            )
        return self.take(at.flatten(), axis)

    @takes_torchs_names
    def take_along_dim(self, index: Any, axis: SupportsIndex | None = None, **torch: Unpack[Dim]) -> Self:
        """As numpy.take_along_axis: `gather` with an index that broadcasts with the tensor off the axis, and whose
        negative positions count from the end. None: of the flattened tensor."""
        at = self._of(index)
        if axis is None:
            return self.flatten().take_along_dim(at.flatten(), 0)
        place = axis_in(axis, self.shape)
        if at.ndim != self.ndim:
            message = "the index has another rank than the tensor"
            hint = "an index of the tensor's rank; take(index, axis) reads whole slices"
            refuse(Kind.AXIS_SIZE_MISMATCH, "take_along_dim", message, self.shape, at.shape, hint=hint)
        own, theirs = ((*x.shape[:place], 1, *x.shape[place + 1 :]) for x in (self, at))
        shape = broadcast_shape("take_along_dim", own, theirs)
        whole = self.expand((*shape[:place], self.shape[place], *shape[place + 1 :]))
        places = at.from_start(self.shape[place])
        return whole.gather(place, places.expand((*shape[:place], at.shape[place], *shape[place + 1 :])))

    take_along_axis = take_along_dim

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """The tensor with `value` where the mask is True; the dtype stays. The mask broadcasts to the tensor."""
        chosen = self._of(mask)
        if not chosen.dtype.is_bool:
            message = f"a mask is of bools, not of {chosen.dtype}"
            refuse(
                Kind.DTYPE_MISMATCH, "masked_fill", message, self.shape, chosen.shape, hint="mask.bool(), or mask != 0"
            )
        if is_number(value) and self.dtype.is_float:
            return self._choose(chosen.expand(self.shape), float(value), self)
        fill = self._constant(value, self.dtype) if is_number(value) else self._of(value).cast(self.dtype)
        return self._choose(chosen.expand(self.shape), fill.expand(self.shape), self)

    def __getitem__(self, key: Any) -> Self:
        """NumPy's indexing, which is torch's: numbers, slices with any step, `...`, None, and positions in tensors,
        arrays and lists, which broadcast together. If such positions stand at neighbouring axes, their axes take that
        place in the result; else they come first.

        A mask of bools must be an array or a list, whose number of True is known; negative positions count from the
        end; positions outside are an error in a constant, and are clamped to the nearest end at run time.
        """
        items = key if isinstance(key, tuple) else (key,)
        if not any(map(is_position, items)):
            return super().__getitem__(key)
        return self._at_positions(with_positions(self, items))

    def _at_positions(self, items: list[Any]) -> Self:
        """The selection of a key with one item per axis, None for a new axis. Items are slices, numbers, or tensors of
        positions."""
        check_places(self, items)
        left = self._basic(tuple(slice(None) if isinstance(item, LazyTensor) else item for item in items))
        indices: list[Any] = [
            item if isinstance(item, LazyTensor) else None for item in items if not isinstance(item, int)
        ]
        while (
            single := next((k for k, index in enumerate(indices) if index is not None and not index.ndim), None)
        ) is not None:
            left = left.take(indices.pop(single), single)
        given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
        if len(given) > 1:
            result: Self = selected(left, select(left, indices))
            return result
        return left.take(given[0][1], given[0][0]) if given else left

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        hint = "where(condition, a, b), masked_fill(mask, value) or scatter(axis, index, updates) gives a new tensor"
        fail(Kind.UNSUPPORTED_OP, STAGE, "a lazy tensor never changes, so it has no assignment", hint=hint)

    def from_start(self, size: int) -> Self:
        """These positions along an axis of `size`, negative ones counted from the end, as positions from the start.

        Raises:
            EqsatError: MalformedGraph for a constant with a position outside.
        """
        if not self.dtype.is_int or (self.array is None and not self.dtype.is_signed):
            return self
        if self.array is None:
            wide = self if size <= self.dtype.highest else self.cast("i64")
            return self._choose(wide < 0, wide + size, wide)
        outside = self.array[(self.array < -size) | (self.array >= size)]
        if outside.size:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"index {outside[0]} is out of bounds for an axis of {size} elements")
        if not self.size:
            return self
        return self._constant(self.array.astype("i8") % size, name=self.arg.get("tensor_id"))
