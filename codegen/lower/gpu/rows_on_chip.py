"""Rows in shared memory: a pass stores the elements that it loads, and later passes load them from there. A thread
reads only elements that it has stored.

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
    """Buffers of `teams` rows of `length` elements, one per distinct load of a row: `places`. The thread is at `width`
    elements from width·`vector` on. `writes`: another pass follows, so that this one stores."""

    allocate: Allocate
    teams: int
    length: int
    team: AxisExpr
    width: int
    places: dict[Hashable, str]
    vector: AxisExpr = ZERO
    writes: bool = False

    def find(self, key: Hashable, neighbour: AxisExpr = ZERO) -> At | None:
        """The element of an earlier pass's load under `key`; None where there was none."""
        return self._at(self.places[key], neighbour) if key in self.places else None

    def add(self, key: Hashable, buffer: str, dtype: str, neighbour: AxisExpr = ZERO) -> At:
        """A new buffer for the load under `key`; this thread's element in it."""
        self.places[key] = self.allocate(f"{buffer}_row", dtype, (self.teams, self.length))
        return self._at(self.places[key], neighbour)

    def is_in_row(self, axes: frozenset[int]) -> bool:
        """Whether a load that depends on these variables is an element of the row."""
        return not self.vector.axes.isdisjoint(axes)

    def _at(self, shared: str, neighbour: AxisExpr) -> At:
        return At(shared, (self.team, self.vector * self.width + neighbour))
