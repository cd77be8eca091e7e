"""Which classes of an e-graph hold points of one value.

A value is stored, read, viewed, finished on chip: at every step another class stands for it, or for some of its points.

    y = x / s        Pro 4
    Store(y)         Buf 5    the same value in memory
    Load(5, m)       Pro 6    read at m: some of its points
    PView(4, m)      Pro 6    computed anew at m
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from eqsat.egraph.view import EGraphView, ENode
from ir.axis_map import parse_map

_PASSED_ON = frozenset({"PView", "EView", "Load", "Gather", "Store", "Pure", "Fin", "At"})
"""Constructors whose value consists of points of their first argument."""


class SameValues:
    """The values of one e-graph, numbered; classes that hold points of one value have its number."""

    def __init__(self, view: EGraphView) -> None:
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        self._origins = {each: tuple(_origins(nodes)) for each, nodes in view.classes.items()}
        edges = [(each, origin) for each, origins in self._origins.items() for origin in origins]
        ends = np.array(edges, np.int64).reshape(-1, 2)
        size = 1 + max(view.classes, default=0)
        graph = coo_matrix((np.ones(len(ends), np.int8), (ends[:, 0], ends[:, 1])), (size, size))
        self._numbers = connected_components(graph, directed=False)[1].tolist()

    def of(self, each: int) -> int:
        """The value whose points the class holds."""
        return int(self._numbers[each])

    def origins(self, each: int) -> tuple[int, ...]:
        """The classes of which the points of a class are, as its nodes say: a view, of what is viewed."""
        return self._origins[each]


def _origins(nodes: Iterable[ENode]) -> Iterator[int]:
    return (int(node.args[0]) for node in nodes if node.ctor in _PASSED_ON and not _is_filled(node))


def _is_filled(node: ENode) -> bool:
    """Whether a read is of padding alone: a number, and no point of the buffer."""
    return node.ctor in ("Load", "PView") and parse_map(str(node.args[1])).fill is not None
