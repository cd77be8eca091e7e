"""Drawings → SVG, laid out as the page of `eqsat explore` is: by Graphviz if it is installed, else in layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from eqsat.explanation.drawing import Box, Drawing, Edge, Frame
from eqsat.explanation.layout import Layout, Point, layout

LETTER, LINE = 6.6, 15.0
"""Pixels: width of a letter and height of a line."""
MARGIN = 10.0
"""Pixels around the boxes of a frame, and around a drawing."""
SIDE = 8.0
"""Pixels between an arrow and the boxes that it passes."""
_INK = "#444444"


class _Placed(NamedTuple):
    """A drawing with its places, in pixels. frames: with the centre and the size of each."""

    centres: Mapping[str, Point]
    frames: Sequence[tuple[Frame, Point, Point]]
    routes: Sequence[Sequence[Point]]
    width: float
    height: float


def drawings_to_svg(drawings: Sequence[Drawing], with_dot: bool = True) -> str:
    """One picture with the drawings side by side. with_dot: let Graphviz lay them out, if it is installed."""
    placed = [_place(drawing, with_dot) for drawing in drawings]
    width = sum(one.width + MARGIN for one in placed)
    height = max(one.height for one in placed) + LINE + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{_INK}"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
    ]
    left = 0.0
    for drawing, one in zip(drawings, placed, strict=True):
        parts.append(f'<g transform="translate({left:.1f},{LINE:.1f})">')
        parts += _drawing_parts(drawing, one)
        parts.append("</g>")
        left += one.width + MARGIN
    return "\n".join([*parts, "</svg>", ""])


def _place(drawing: Drawing, with_dot: bool) -> _Placed:
    """The boxes of every frame are laid out by themselves; then the frames, and the boxes without one, as nodes."""
    home = {name: f"frame {place}" for place, frame in enumerate(drawing.frames) for name in frame.boxes}
    sizes = {name: _size(box) for name, box in drawing.boxes.items()}
    inner: dict[str, Layout] = {}
    outer_sizes = {name: size for name, size in sizes.items() if name not in home}
    for place, frame in enumerate(drawing.frames):
        edges = [edge for edge in drawing.edges if home.get(edge[0]) == home.get(edge[1]) == f"frame {place}"]
        one = inner[f"frame {place}"] = layout({name: sizes[name] for name in frame.boxes}, edges, with_dot)
        outer_sizes[f"frame {place}"] = _frame_size(frame, one)
    between = [(home.get(a, a), home.get(b, b)) for a, b in drawing.edges]
    outer = layout(outer_sizes, between, with_dot)
    centres = {name: outer.centres[name] for name in drawing.boxes if name not in home}
    frames = []
    for place, frame in enumerate(drawing.frames):
        (x, y), (width, height) = outer.centres[f"frame {place}"], outer_sizes[f"frame {place}"]
        frames.append((frame, (x, y), (width, height)))
        corner = x - inner[f"frame {place}"].width / 2, y - height / 2 + LINE
        for name, (dx, dy) in inner[f"frame {place}"].centres.items():
            centres[name] = corner[0] + dx, corner[1] + dy
    straight = [_route(edge, home, inner, outer, centres, sizes) for edge in drawing.edges]
    routes = [_around(route, edge, centres, sizes) for route, edge in zip(straight, drawing.edges, strict=True)]
    width = max(outer.width, LETTER * len(drawing.title) + 2 * MARGIN)
    return _Placed(centres, frames, routes, width, outer.height)


def _route(
    edge: Edge,
    home: Mapping[str, str],
    inner: Mapping[str, Layout],
    outer: Layout,
    centres: Mapping[str, Point],
    sizes: Mapping[str, Point],
) -> list[Point]:
    """The corners of an arrow: as laid out between boxes without a frame, and within a frame; else a straight line."""
    a, b = edge
    if a not in home and b not in home and edge in outer.routes:
        return list(outer.routes[edge])
    if home.get(a) == home.get(b) and edge in inner[home[a]].routes:
        old = inner[home[a]].centres[a]
        dx, dy = centres[a][0] - old[0], centres[a][1] - old[1]
        return [(x + dx, y + dy) for x, y in inner[home[a]].routes[edge]]
    (ax, ay), (bx, by) = centres[a], centres[b]
    return [(ax, ay + sizes[a][1] / 2), (bx, by - sizes[b][1] / 2)]


def _around(route: list[Point], edge: Edge, centres: Mapping[str, Point], sizes: Mapping[str, Point]) -> list[Point]:
    """The route; a straight one that would be hidden behind boxes passes them on their right."""
    if len(route) != 2:
        return route
    (ax, ay), (bx, by) = route
    hidden = [
        x + sizes[name][0] / 2
        for name, (x, y) in centres.items()
        if name not in edge and ay < y < by and abs(ax + (bx - ax) * (y - ay) / (by - ay) - x) < sizes[name][0] / 2
    ]
    if not hidden:
        return route
    right = max(hidden) + SIDE
    return [(ax, ay), (right, min(ay + LINE, by)), (right, max(by - LINE, ay)), (bx, by)]


def _size(box: Box) -> Point:
    return LETTER * max(map(len, box.lines)) + 14, LINE * len(box.lines) + 10


def _frame_size(frame: Frame, inside: Layout) -> Point:
    return max(inside.width, LETTER * len(frame.title) + 2 * MARGIN), inside.height + LINE


def _drawing_parts(drawing: Drawing, placed: _Placed) -> list[str]:
    parts = [f'<text x="{MARGIN}" y="0" font-weight="bold">{_text(drawing.title)}</text>']
    for frame, (x, y), (width, height) in placed.frames:
        left, top = x - width / 2, y - height / 2
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" fill="#fafafa" '
            f'stroke="{_INK}" stroke-dasharray="4 3"/>'
        )
        parts.append(f'<text x="{left + MARGIN:.1f}" y="{top + LINE:.1f}">{_text(frame.title)}</text>')
    for route in placed.routes:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in route)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_INK}" marker-end="url(#tip)"/>')
    for name, box in drawing.boxes.items():
        parts += _box_parts(box, placed.centres[name])
    return parts


def _box_parts(box: Box, centre: Point) -> list[str]:
    (x, y), (width, height) = centre, _size(box)
    parts = [
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" '
        f'fill={quoteattr(box.colour)} stroke="{_INK}" stroke-width="{3 if box.is_output else 1}"/>'
    ]
    top = y - height / 2 + LINE
    for place, line in enumerate(box.lines):
        parts.append(f'<text x="{x:.1f}" y="{top + LINE * place:.1f}" text-anchor="middle">{_text(line)}</text>')
    return parts


def _text(text: str) -> str:
    """Text for XML, which has no control characters."""
    return escape("".join(letter if letter.isprintable() else "�" for letter in text))
