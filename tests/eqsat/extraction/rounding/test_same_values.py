"""The numbers of values: one for each connected component of the classes that hold its points."""

from __future__ import annotations

import random

import networkx as nx

from eqsat.extraction.rounding.same_values import _number_components


def test_components_are_numbered_by_their_least_node() -> None:
    rng = random.Random(1)
    for size in (1, 2, 7, 40):
        for count in (0, size // 2, size, 3 * size):
            edges = [(rng.randrange(size), rng.randrange(size)) for _ in range(count)]
            graph = nx.Graph(edges)
            graph.add_nodes_from(range(size))
            wanted = {
                node: at for at, part in enumerate(sorted(map(sorted, nx.connected_components(graph)))) for node in part
            }
            assert _number_components(size, edges) == [wanted[node] for node in range(size)]
