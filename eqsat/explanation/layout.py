"""Positions for the nodes of a drawing: from Graphviz's `dot` if it is installed, else from a layered layout."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from eqsat.explanation.layered_layout import Edge, Layout, Point, Sizes, lay_out

PATIENCE_SECONDS = 20
"""Time limit for Graphviz."""
INCH = 72.0
"""Pixels per inch, the unit of Graphviz."""


def layout(sizes: Sizes, edges: Sequence[Edge], with_dot: bool = True) -> Layout:
    """A drawing of a graph. with_dot: use Graphviz if it is installed."""
    edges = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
    dot = shutil.which("dot") if with_dot else None
    drawing = None if dot is None else _by_dot(dot, sizes, edges)
    return drawing or lay_out(sizes, edges)


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
