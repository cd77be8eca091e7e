"""Methods of lazy tensors that order elements along an axis."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, SupportsIndex, Unpack, overload

from eqsat.lazy.argument_checks import STAGE, axis_in, flag, integer
from eqsat.lazy.keyword_names import Dim, takes_torchs_names
from eqsat.lazy.parts import CopiesAndParts
from eqsat.lazy.radix_sort import sorted_positions
from eqsat.lazy.reductions import Reductions
from eqsat.lazy.two_meanings import Library, two_meanings
from ir.diagnostics import Kind, fail

_MOST_RANKED = 4096
"""Elements along an axis that `topk` compares with one another."""


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

        The rank of an element is the number of elements before it in the order: n² comparisons for n elements. A longer
        axis is sorted.

        Raises:
            EqsatError: MalformedGraph for a k beyond the axis.
        """
        place = axis_in(axis, self.shape)
        size, count = self.shape[place], integer(k, "k")
        if not 0 <= count <= size:
            message = f"there are no {k} elements along axis {axis}"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, op="topk", shape=self.shape)
        rows, greatest = self.swapaxes(place, -1), flag(largest, "largest")
        sort = _ranked if size <= _MOST_RANKED else _sorted
        positions = sort(rows, count, greatest)
        return Ordered(rows.gather(rows.ndim - 1, positions).swapaxes(place, -1), positions.swapaxes(place, -1))

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


def _ranked(rows: Any, k: int, largest: bool) -> Any:
    """The positions of the k greatest (or least) elements of `rows` [..., n] in order."""
    size = rows.shape[-1]
    one, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    grid = (*rows.shape, size)
    comes_first = rows._positions(grid, len(grid) - 1) < rows._positions(grid, len(grid) - 2)
    wins = _is_greater(other, one) if largest else _is_greater(one, other)
    ties = ~(_is_greater(other, one) | _is_greater(one, other))
    rank = (wins | (ties & comes_first)).cast("i64").sum(-1)
    wanted = (*rows.shape[:-1], k, size)
    chosen = rank.unsqueeze(-2).expand(wanted).eq(rows._positions(wanted, len(wanted) - 2))
    return rows._choose(chosen, rows._positions(wanted, len(wanted) - 1), 0).sum(-1)


def _sorted(rows: Any, k: int, largest: bool) -> Any:
    return sorted_positions(rows, largest)[..., :k]


def _is_greater(x: Any, y: Any) -> Any:
    """Whether x is greater than y, or NaN where y is none."""
    greater = x > y
    return greater | ((x != x) & (y == y)) if x.dtype.is_float else greater
