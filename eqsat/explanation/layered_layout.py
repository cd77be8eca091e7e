"""A layered layout of a graph, after Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical
system structures", 1981).

Edges of a cycle are turned until none is left; layers are by the longest path; an edge that spans several layers has a
bend in each between; orders are by barycentres, positions by the mean of the neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float]
Edge = tuple[str, str]
Sizes = Mapping[str, Point]
"""Width and height of every node, in pixels."""

GAP_X, GAP_Y = 18.0, 34.0
"""Pixels between nodes of a layer, and between layers."""
BEND = 2.0
"""Width in pixels of the place where an edge passes a layer."""
SWEEPS = 8
"""Passes over the layers, downwards and upwards in turn."""


class Layout(NamedTuple):
    """Centres of the nodes, corners of the edges' lines, and the size of the drawing, in pixels. y grows downwards; the
    edges lead downwards, but for one or more of every cycle."""

    centres: dict[str, Point]
    routes: dict[Edge, list[Point]]
    width: float
    height: float


def lay_out(sizes: Sizes, edges: Sequence[Edge]) -> Layout:
    """The layered layout of a graph without edges from a node to itself."""
    turned = _turned(sizes, edges)
    down = {edge: (edge[1], edge[0]) if edge in turned else edge for edge in edges}
    rank = _ranks(sizes, list(down.values()))
    chains = {edge: list(_chain(edge, rank)) for edge in dict.fromkeys(down.values())}
    widths = {node: size[0] for node, size in sizes.items()}
    widths |= {node: BEND for chain in chains.values() for node in chain[1:-1]}
    links = [link for chain in chains.values() for link in pairwise(chain)]
    layers: list[list[str]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for node in sizes:
        layers[rank[node]].append(node)
    for chain in chains.values():
        for step, bend in enumerate(chain[1:-1], rank[chain[0]] + 1):
            layers[step].append(bend)
    _order_layers(layers, links)
    x = _place_nodes(layers, widths, links)
    left = min((x[node] - widths[node] / 2 for node in x), default=0.0) - GAP_X
    right = max((x[node] + widths[node] / 2 for node in x), default=0.0) + GAP_X
    places, height = _rows(layers, sizes)
    centres = {node: (x[node] - left, places[rank[node]][0]) for node in sizes}
    routes = {}
    for edge, (a, b) in down.items():
        points = [(centres[a][0], centres[a][1] + sizes[a][1] / 2)]
        for step, bend in enumerate(chains[a, b][1:-1], rank[a] + 1):
            middle, half = places[step]
            points += [(x[bend] - left, middle - half), (x[bend] - left, middle + half)]
        points.append((centres[b][0], centres[b][1] - sizes[b][1] / 2))
        routes[edge] = points[::-1] if edge in turned else points
    return Layout(centres, routes, right - left, height)


def _turned(sizes: Sizes, edges: Sequence[Edge]) -> set[Edge]:
    """The edges that close a cycle in a walk from the nodes that no edge leads to."""
    above, below = _neighbours(edges)
    turned: set[Edge] = set()
    done: set[str] = set()
    for root in sorted(sizes, key=lambda node: node in above):
        path: list[tuple[str, Iterator[str]]] = [] if root in done else [(root, iter(below.get(root, ())))]
        inside = {root} if path else set()
        while path:
            node, rest = path[-1]
            other = next(rest, None)
            if other is None:
                path.pop()
                inside.discard(node)
                done.add(node)
            elif other in inside:
                turned.add((node, other))
            elif other not in done:
                path.append((other, iter(below.get(other, ()))))
                inside.add(other)
    return turned


def _ranks(sizes: Sizes, edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of every node, from 0: below its predecessors, and as near to its successors as possible."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(sizes)
    graph.add_edges_from(edges)
    rank: dict[str, int] = {}
    order = list(networkx.topological_sort(graph))
    for node in order:
        rank[node] = max((rank[near] + 1 for near in graph.predecessors(node)), default=0)
    for node in reversed(order):
        rank[node] = min((rank[near] - 1 for near in graph.successors(node)), default=rank[node])
    used = {number: place for place, number in enumerate(sorted(set(rank.values())))}
    return {node: used[number] for node, number in rank.items()}


def _chain(edge: Edge, rank: Mapping[str, int]) -> Iterator[str]:
    """The ends of an edge, and between them a bend for every layer that the edge passes."""
    a, b = edge
    yield a
    yield from (f"{a}\0{b}\0{step}" for step in range(rank[a] + 1, rank[b]))
    yield b


def _rows(layers: Sequence[Sequence[str]], sizes: Sizes) -> tuple[list[Point], float]:
    """The middle and half of the height of every layer, and the height of all."""
    places: list[Point] = []
    top = GAP_Y
    for layer in layers:
        tallest = max((sizes[node][1] for node in layer if node in sizes), default=0.0)
        places.append((top + tallest / 2, tallest / 2))
        top += tallest + GAP_Y
    return places, top


def _neighbours(edges: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The predecessors and the successors of each node."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for a, b in edges:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    return above, below


def _order_layers(layers: list[list[str]], edges: Sequence[Edge]) -> None:
    """Sorts the nodes of each layer by the mean position of their neighbours above, then below, to avoid crossings."""
    above, below = _neighbours(edges)
    place: dict[str, float] = {}
    for layer in layers:
        place.update(_shares(layer))
    for sweep in range(SWEEPS):
        near, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        for layer in order:
            wanted = {node: _mean([place[other] for other in near.get(node, ())], place[node]) for node in layer}
            layer.sort(key=wanted.__getitem__)
            place.update(_shares(layer))


def _shares(layer: Sequence[str]) -> dict[str, float]:
    """The position of each node in its layer, from 0 to 1."""
    return {node: (place + 0.5) / len(layer) for place, node in enumerate(layer)}


def _place_nodes(layers: list[list[str]], widths: Mapping[str, float], edges: Sequence[Edge]) -> dict[str, float]:
    """The x of every node's centre: near the mean of its neighbours, without overlap in a layer."""
    above, below = _neighbours(edges)
    x: dict[str, float] = {}
    for layer in layers:
        x.update(_separate(layer, [0.0] * len(layer), widths))
    for sweep in range(SWEEPS):
        near, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        for layer in order:
            wanted = [_mean([x[other] for other in near.get(node, ())], x[node]) for node in layer]
            x.update(_separate(layer, wanted, widths))
    return x


def _separate(layer: Sequence[str], wanted: Sequence[float], widths: Mapping[str, float]) -> dict[str, float]:
    """Positions without overlap, in this order and near the wanted ones: the mean of packing from the left and from the
    right."""
    gaps = [(widths[one] + widths[other]) / 2 + GAP_X for one, other in pairwise(layer)]
    rightmost, leftmost = list(wanted), list(wanted)
    for k, gap in enumerate(gaps):
        rightmost[k + 1] = max(rightmost[k + 1], rightmost[k] + gap)
    for k in range(len(gaps) - 1, -1, -1):
        leftmost[k] = min(leftmost[k], leftmost[k + 1] - gaps[k])
    return {node: (one + other) / 2 for node, one, other in zip(layer, rightmost, leftmost, strict=True)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
