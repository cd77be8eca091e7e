"""Positions for the nodes of a drawing: from Graphviz's `dot` if it is installed, else from a layered layout.

The layered layout follows Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system
structures", 1981): layers by the longest path, orders by barycentres, positions by the mean of the neighbours.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float]
Edge = tuple[str, str]
Sizes = Mapping[str, Point]
"""Width and height of every node, in pixels."""

GAP_X, GAP_Y = 18.0, 34.0
"""Pixels between nodes of a layer, and between layers."""
SWEEPS = 8
"""Passes over the layers, downwards and upwards in turn."""
PATIENCE_SECONDS = 20
"""Time limit for Graphviz."""
INCH = 72.0
"""Pixels per inch, the unit of Graphviz."""


class Layout(NamedTuple):
    """Centres of the nodes, corners of the edges' lines, and the size of the drawing, in pixels. y grows downwards; the
    edges lead downwards."""

    centres: dict[str, Point]
    routes: dict[Edge, list[Point]]
    width: float
    height: float


def layout(sizes: Sizes, edges: Sequence[Edge], with_dot: bool = True) -> Layout:
    """A drawing of an acyclic graph. with_dot: use Graphviz if it is installed."""
    edges = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
    dot = shutil.which("dot") if with_dot else None
    drawing = None if dot is None else _by_dot(dot, sizes, edges)
    return drawing or lay_out(sizes, edges)


def lay_out(sizes: Sizes, edges: Sequence[Edge]) -> Layout:
    """The layered layout of an acyclic graph."""
    layers = _order_layers(_layers(sizes, edges), edges)
    x = _place_nodes(layers, sizes, edges)
    y: dict[str, float] = {}
    top = GAP_Y
    for layer in layers:
        tallest = max(sizes[node][1] for node in layer)
        y.update(dict.fromkeys(layer, top + tallest / 2))
        top += tallest + GAP_Y
    left = min((x[node] - sizes[node][0] / 2 for node in x), default=0.0) - GAP_X
    centres = {node: (x[node] - left, y[node]) for node in sizes}
    width = max((centres[node][0] + sizes[node][0] / 2 for node in sizes), default=0.0) + GAP_X
    routes = {(a, b): [_below(centres[a], sizes[a]), _above(centres[b], sizes[b])] for a, b in edges}
    return Layout(centres, routes, width, top)


def _below(centre: Point, size: Point) -> Point:
    return centre[0], centre[1] + size[1] / 2


def _above(centre: Point, size: Point) -> Point:
    return centre[0], centre[1] - size[1] / 2


def _layers(sizes: Sizes, edges: Sequence[Edge]) -> list[list[str]]:
    """The layers: every node below its predecessors, and as near to its successors as possible."""
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
    layers: dict[int, list[str]] = {}
    for node in sizes:
        layers.setdefault(rank[node], []).append(node)
    return [layers[number] for number in sorted(layers)]


def _neighbours(edges: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The predecessors and the successors of each node."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for a, b in edges:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    return above, below


def _order_layers(layers: list[list[str]], edges: Sequence[Edge]) -> list[list[str]]:
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
    return layers


def _shares(layer: Sequence[str]) -> dict[str, float]:
    """The position of each node in its layer, from 0 to 1."""
    return {node: (place + 0.5) / len(layer) for place, node in enumerate(layer)}


def _place_nodes(layers: list[list[str]], sizes: Sizes, edges: Sequence[Edge]) -> dict[str, float]:
    """The x of every node's centre: near the mean of its neighbours, without overlap in a layer."""
    above, below = _neighbours(edges)
    x: dict[str, float] = {}
    for layer in layers:
        x.update(_separate(layer, [0.0] * len(layer), sizes))
    for sweep in range(SWEEPS):
        near, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        for layer in order:
            wanted = [_mean([x[other] for other in near.get(node, ())], x[node]) for node in layer]
            x.update(_separate(layer, wanted, sizes))
    return x


def _separate(layer: Sequence[str], wanted: Sequence[float], sizes: Sizes) -> dict[str, float]:
    """Positions without overlap, in this order and near the wanted ones: the mean of packing from the left and from the
    right."""
    widths = [sizes[node][0] for node in layer]
    gaps = [(one + other) / 2 + GAP_X for one, other in pairwise(widths)]
    rightmost, leftmost = list(wanted), list(wanted)
    for k, gap in enumerate(gaps):
        rightmost[k + 1] = max(rightmost[k + 1], rightmost[k] + gap)
    for k in range(len(gaps) - 1, -1, -1):
        leftmost[k] = min(leftmost[k], leftmost[k + 1] - gaps[k])
    return {node: (one + other) / 2 for node, one, other in zip(layer, rightmost, leftmost, strict=True)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _by_dot(dot: str, sizes: Sizes, edges: Sequence[Edge]) -> Layout | None:
    """Graphviz's drawing; None if Graphviz fails or exceeds the time limit."""
    number = {node: place for place, node in enumerate(sizes)}
    names = list(sizes)
    lines = [
        "digraph g {",
        "nodesep=0.25; ranksep=0.45; nslimit=2; mclimit=0.5; node [shape=box, fixedsize=1]; edge [arrowhead=none];",
    ]
    lines += [f"{number[node]} [width={w / INCH:.3f}, height={h / INCH:.3f}];" for node, (w, h) in sizes.items()]
    lines += [f"{number[a]} -> {number[b]};" for a, b in edges]
    try:
        done = subprocess.run(
            [dot, "-Tplain"],
            input="\n".join([*lines, "}"]),
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return _read_plain(done.stdout, names)


def _read_plain(text: str, names: Sequence[str]) -> Layout | None:
    """A drawing in Graphviz's plain format, which has inches and y upwards; None if a node is missing."""
    centres: dict[str, Point] = {}
    routes: dict[Edge, list[Point]] = {}
    width = height = 0.0
    for words in map(str.split, text.splitlines()):
        match words:
            case ["graph", _, w, h]:
                width, height = float(w) * INCH, float(h) * INCH
            case ["node", name, x, y, *_]:
                centres[names[int(name)]] = float(x) * INCH, height - float(y) * INCH
            case ["edge", a, b, count, *rest]:
                values = [float(word) * INCH for word in rest[: 2 * int(count)]]
                points = [(x, height - y) for x, y in zip(values[::2], values[1::2], strict=True)]
                routes[names[int(a)], names[int(b)]] = points
    return Layout(centres, routes, width, height) if len(centres) == len(names) else None
