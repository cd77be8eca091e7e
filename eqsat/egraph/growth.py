"""When an e-graph grows so steeply that one more iteration could take minutes, and which rules have to rest then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eqsat.egraph.engine import Row
from eqsat.egraph.forecast import Forecast
from ir.term.rule import Rule

STEEP = 8
"""Programs end at some five e-nodes for each that they were loaded with; more than this is a reason to look."""
FEWEST = 500
"""E-nodes that are never a reason."""
TOO_MANY = 4
"""Matches of one rule in one iteration, for each e-node that there may be: a forecast asks for no facts, and is often
several times too high."""


class Growth:
    """How an e-graph grows, and the matches that are too many for one rule in one iteration."""

    def __init__(self, nodes: int, loaded: int) -> None:
        """nodes: the most e-nodes that there may be. loaded: how many there were at first."""
        self._most = TOO_MANY * nodes
        self._look_at = max(FEWEST, STEEP * loaded)

    def is_steep(self, nodes: int, matches: int) -> bool:
        """Whether to look what comes next: there are many e-nodes, twice as many as at the last look, or one rule
        matched more often than there are e-nodes."""
        if nodes <= self._look_at and matches <= max(FEWEST, nodes):
            return False
        self._look_at = max(self._look_at, 2 * nodes)
        return True

    def too_many(self, rows: Mapping[str, Sequence[Row]], rules: Iterable[Rule]) -> list[Rule]:
        """The rules that may match too often in the next iteration. rows: of the constructors' tables."""
        forecast = Forecast(rows)
        return [rule for rule in rules if forecast.of(rule) > self._most]
