"""Where the nodes of a drawing go: by Graphviz's `dot` where it is installed, else in layers by our own hand.

Our own follows Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system structures", 1981):
layers by the longest path, orders by barycentres, places by the mean of the neighbours.
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
"""Width and height of every node."""

GAP_X, GAP_Y = 18.0, 34.0
SWEEPS = 8
PATIENCE_SECONDS = 20
INCH = 72.0


class Layout(NamedTuple):
    """The centre of every node, the corners through which every edge goes, and the size of it all, in pixels; y grows
    downwards, and so do the edges."""

    centres: dict[str, Point]
    routes: dict[Edge, list[Point]]
    width: float
    height: float


def layout(sizes: Sizes, edges: Sequence[Edge], with_dot: bool = True) -> Layout:
    """A drawing of an acyclic graph. `with_dot`: use Graphviz where there is one."""
    edges = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
    dot = shutil.which("dot") if with_dot else None
    found = None if dot is None else _by_dot(dot, sizes, edges)
    return found or layered(sizes, edges)


def layered(sizes: Sizes, edges: Sequence[Edge]) -> Layout:
    """The drawing by our own hand."""
    layers = _ordered(_layers(sizes, edges), edges)
    x = _placed(layers, sizes, edges)
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
    """Every node below all that it reads, and as near to its readers as that allows."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(sizes)
    graph.add_edges_from(edges)
    rank: dict[str, int] = {}
    order = list(networkx.topological_sort(graph))
    for node in order:
        rank[node] = max((rank[each] + 1 for each in graph.predecessors(node)), default=0)
    for node in reversed(order):
        rank[node] = min((rank[each] - 1 for each in graph.successors(node)), default=rank[node])
    layers: dict[int, list[str]] = {}
    for node in sizes:
        layers.setdefault(rank[node], []).append(node)
    return [layers[each] for each in sorted(layers)]


def _neighbours(edges: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Of each node what it reads, and what reads it."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for a, b in edges:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    return above, below


def _ordered(layers: list[list[str]], edges: Sequence[Edge]) -> list[list[str]]:
    """The layers with few crossings: each is sorted by where its neighbours stand, downwards and upwards in turn."""
    above, below = _neighbours(edges)
    place: dict[str, float] = {}
    for layer in layers:
        place.update(_shares(layer))
    for sweep in range(SWEEPS):
        near, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        for layer in order:
            wanted = {node: _mean([place[each] for each in near.get(node, ())], place[node]) for node in layer}
            layer.sort(key=wanted.__getitem__)
            place.update(_shares(layer))
    return layers


def _shares(layer: Sequence[str]) -> dict[str, float]:
    """Where each node stands in its layer, from 0 to 1."""
    return {node: (place + 0.5) / len(layer) for place, node in enumerate(layer)}


def _placed(layers: list[list[str]], sizes: Sizes, edges: Sequence[Edge]) -> dict[str, float]:
    """A centre for every node: near the mean of its neighbours, apart from those beside it."""
    above, below = _neighbours(edges)
    x: dict[str, float] = {}
    for layer in layers:
        x.update(_apart(layer, [0.0] * len(layer), sizes))
    for sweep in range(SWEEPS):
        near, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        for layer in order:
            wanted = [_mean([x[each] for each in near.get(node, ())], x[node]) for node in layer]
            x.update(_apart(layer, wanted, sizes))
    return x


def _apart(layer: Sequence[str], wanted: Sequence[float], sizes: Sizes) -> dict[str, float]:
    """Places in this order as near as can be to those that are wanted: from the left, from the right, and between."""
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
    """Graphviz's drawing; None where it fails or takes too long."""
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
    """Graphviz's plain format: inches, y upwards."""
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
                values = [float(each) * INCH for each in rest[: 2 * int(count)]]
                points = [(x, height - y) for x, y in zip(values[::2], values[1::2], strict=True)]
                routes[names[int(a)], names[int(b)]] = points
    return Layout(centres, routes, width, height) if len(centres) == len(names) else None
