"""Decides when an e-graph grows so fast that one more iteration could take minutes, and which rules stop then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eqsat.egraph.engine import Row
from eqsat.egraph.forecast import Forecast
from ir.term.rule import Rule

STEEP = 8
"""E-nodes per loaded e-node from which on growth is checked. Ordinary programs end at about five."""
FEWEST = 500
"""Below this many e-nodes growth is not checked."""
TOO_MANY = 4
"""Matches of one rule in one iteration, per allowed e-node, that are too many. A forecast ignores facts, so it is often
several times too high."""


class Growth:
    """Watches the growth of an e-graph."""

    def __init__(self, nodes: int, loaded: int) -> None:
        """nodes: the most e-nodes that are allowed. loaded: the number of e-nodes at first."""
        self._most = TOO_MANY * nodes
        self._next_check = max(FEWEST, STEEP * loaded)

    def is_steep(self, nodes: int, matches: int) -> bool:
        """Whether the next iteration should be forecast: the number of e-nodes is large and has doubled since the last
        forecast, or one rule matched more often than there are e-nodes."""
        if nodes <= self._next_check and matches <= max(FEWEST, nodes):
            return False
        self._next_check = max(self._next_check, 2 * nodes)
        return True

    def too_many(self, rows: Mapping[str, Sequence[Row]], rules: Iterable[Rule]) -> list[Rule]:
        """The rules that may match too often in the next iteration. rows: of the constructors' tables."""
        forecast = Forecast(rows)
        return [rule for rule in rules if forecast.of(rule) > self._most]
