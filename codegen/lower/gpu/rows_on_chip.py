"""Rows in shared memory: what one pass over a row loads, the next reads there, each thread at its own elements.

    pass 1   x_1 = x[row, 8*e .. 8*e + 8]; x_row[8*e .. 8*e + 8] = x_1; m = max(m, x_1[v])
    pass 2   x_2 = x_row[8*e .. 8*e + 8]; s += exp(x_2[v] - m)

Between passes the team meets at a barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ir.index.expr import ZERO, AxisExpr
from ir.kernel.gpu.nodes import At

Allocate = Callable[[str, str, tuple[int, ...]], str]


@dataclass(frozen=True)
class RowsOnChip:
    """`teams` rows of `length` elements for every load of a row; `places` are those that exist, by what is loaded. The
    thread has reached `width` elements from width·`vector` on; `writes`: another pass follows."""

    allocate: Allocate
    teams: int
    length: int
    team: AxisExpr
    width: int
    places: dict[Hashable, str]
    vector: AxisExpr = ZERO
    writes: bool = False

    def found(self, key: Hashable, neighbour: AxisExpr = ZERO) -> At | None:
        """Where an earlier pass put what is loaded under a key."""
        return self._at(self.places[key], neighbour) if key in self.places else None

    def made(self, key: Hashable, buffer: str, dtype: str, neighbour: AxisExpr = ZERO) -> At:
        """Where this pass puts it."""
        self.places[key] = self.allocate(f"{buffer}_row", dtype, (self.teams, self.length))
        return self._at(self.places[key], neighbour)

    def concerns(self, axes: frozenset[int]) -> bool:
        """Whether what depends on these variables is an element of the row."""
        return not self.vector.axes.isdisjoint(axes)

    def _at(self, shared: str, neighbour: AxisExpr) -> At:
        return At(shared, (self.team, self.vector * self.width + neighbour))
