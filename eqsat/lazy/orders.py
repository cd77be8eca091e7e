"""Methods of lazy tensors that order elements along an axis."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, SupportsIndex, Unpack, overload

from eqsat.lazy.argument_checks import STAGE, axis_in, flag, integer
from eqsat.lazy.first_elements import element_at_rank, first_positions
from eqsat.lazy.keyword_names import Dim, DimAndKeep, takes_torchs_names
from eqsat.lazy.parts import CopiesAndParts
from eqsat.lazy.reductions import Reductions
from eqsat.lazy.two_meanings import Library, two_meanings
from ir.diagnostics import Kind, fail


class Ordered(NamedTuple):
    """Elements in order along an axis, and their positions, i64."""

    values: Any
    indices: Any


def _sort_in_torch(x: Any, dim: SupportsIndex = -1, descending: bool = False, stable: bool = False) -> Ordered:
    return x._ordered(dim, descending)  # type: ignore[no-any-return]


def _sort_without_keyword(*_: Any, **__: Any) -> Library | None:
    return None


class Orders(CopiesAndParts, Reductions):
    """Base class of `Tensor`. Equal elements keep their order, and NaN is greater than all numbers."""

    __slots__ = ()

    @takes_torchs_names
    def topk(
        self,
        k: SupportsIndex,
        axis: SupportsIndex = -1,
        largest: bool = True,
        sorted: bool = True,
        **torch: Unpack[Dim],
    ) -> Ordered:
        """The k greatest (or least) elements along `axis` in order, and their positions, i64. Of equal elements the
        first one comes first. NaN is greater than all numbers.

        A few elements are found one after the other, and some hundred by a search for the last of them; else all are
        sorted, in about (log₂ n)² passes over the axis or in one for every 4 bits of the dtype.

        Raises:
            EqsatError: MalformedGraph for a k beyond the axis.
        """
        place = axis_in(axis, self.shape)
        size, count = self.shape[place], integer(k, "k")
        if not 0 <= count <= size:
            message = f"there are no {k} elements along axis {axis}"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, op="topk", shape=self.shape)
        positions = first_positions(self, place, count, flag(largest, "largest"))
        return Ordered(self.gather(place, positions), positions)

    @takes_torchs_names
    def kthvalue(
        self, k: SupportsIndex, axis: SupportsIndex = -1, keepdims: bool = False, **torch: Unpack[DimAndKeep]
    ) -> Ordered:
        """The k-th least element along `axis`, from 1 on, and the position of the first element that equals it, i64.
        NaN is greater than all numbers.

        Raises:
            EqsatError: MalformedGraph for a k beyond the axis.
        """
        place = axis_in(axis, self.shape)
        rank = integer(k, "k") - 1
        if not 0 <= rank < self.shape[place]:
            message = f"there is no {k}-th element along axis {axis}"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, op="kthvalue", shape=self.shape)
        return Ordered(*element_at_rank(self, place, rank, flag(keepdims, "keepdims")))

    @overload
    def sort(self, *, axis: SupportsIndex, descending: bool = False, stable: bool = True) -> Self: ...

    @overload
    def sort(self, *, dim: SupportsIndex, descending: bool = False, stable: bool = True) -> Ordered: ...

    @two_meanings(
        _sort_in_torch,
        _sort_without_keyword,
        "sort() gives the elements in order in NumPy, and a pair of elements and positions in torch",
        "sort(axis=-1), or sort(dim=-1) for the pair",
    )
    def sort(self, axis: SupportsIndex = -1, descending: bool = False, stable: bool = True) -> Self:
        """The elements in order along an axis: with `axis=` alone, with `dim=` torch's pair with the positions."""
        result: Self = self._ordered(axis, descending).values
        return result

    @takes_torchs_names
    def argsort(
        self, axis: SupportsIndex = -1, *, descending: bool = False, stable: bool = True, **torch: Unpack[Dim]
    ) -> Self:
        """The positions of the elements in order along an axis, i64."""
        result: Self = self._ordered(axis, descending).indices
        return result

    def _ordered(self, axis: SupportsIndex, descending: bool) -> Ordered:
        place = axis_in(axis, self.shape)
        return self.topk(self.shape[place], place, flag(descending, "descending"))
