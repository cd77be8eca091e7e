"""Drawings → SVG, laid out as the page of `eqsat explore` is: by Graphviz if it is installed, else in layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from eqsat.explanation.drawing import Box, Drawing, Frame
from eqsat.explanation.layered_layout import Layout, Point
from eqsat.explanation.layout import layout
from eqsat.explanation.route_arrows import Router

LETTER, LINE = 6.6, 15.0
"""Pixels: width of a letter and height of a line."""
MARGIN = 10.0
"""Pixels around the boxes of a frame, and around a drawing."""
ROW = 620.0
"""Most pixels of a row of boxes that no arrow connects; a longer row is broken."""
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
    home = {name: _id(place) for place, frame in enumerate(drawing.frames) for name in (*frame.boxes, frame.name)}
    sizes = {name: _size(box) for name, box in drawing.boxes.items()}
    inner: dict[str, Layout] = {}
    outer_sizes = {name: size for name, size in sizes.items() if name not in home}
    for place, frame in enumerate(drawing.frames):
        inside = {name: sizes[name] for name in frame.boxes}
        edges = [edge for edge in drawing.edges if edge[0] in inside and edge[1] in inside]
        one = inner[_id(place)] = layout(inside, edges, with_dot) if edges else _in_rows(inside)
        outer_sizes[_id(place)] = _frame_size(frame, one)
    outer = layout(outer_sizes, [(home.get(a, a), home.get(b, b)) for a, b in drawing.edges], with_dot)
    centres = {name: outer.centres[name] for name in drawing.boxes if name not in home}
    frames = []
    for place, frame in enumerate(drawing.frames):
        (x, y), (width, height) = outer.centres[_id(place)], outer_sizes[_id(place)]
        frames.append((frame, (x, y), (width, height)))
        corner = x - inner[_id(place)].width / 2, y - height / 2 + LINE
        for name, (dx, dy) in inner[_id(place)].centres.items():
            centres[name] = corner[0] + dx, corner[1] + dy
    router = Router(home, inner, outer, centres, sizes, outer_sizes)
    routes = [router.route(edge) for edge in drawing.edges]
    width = max(outer.width, LETTER * len(drawing.title) + 2 * MARGIN, *(x for route in routes for x, _ in route), 0)
    return _Placed(centres, frames, routes, width, outer.height)


def _id(place: int) -> str:
    return f"frame {place}"


def _in_rows(sizes: Mapping[str, Point]) -> Layout:
    """Boxes without arrows among them, side by side in rows."""
    centres: dict[str, Point] = {}
    left = width = MARGIN
    top, height = MARGIN, 0.0
    for name, (wide, high) in sizes.items():
        if left > MARGIN and left + wide > ROW:
            left, top, height = MARGIN, top + height + MARGIN, 0.0
        centres[name] = left + wide / 2, top + high / 2
        left, height = left + wide + MARGIN, max(height, high)
        width = max(width, left)
    return Layout(centres, {}, width, top + height + MARGIN)


def _size(box: Box) -> Point:
    return LETTER * max(map(len, box.lines)) + 14, LINE * len(box.lines) + 10


def _frame_size(frame: Frame, inside: Layout) -> Point:
    return max(inside.width, LETTER * len(frame.title) + 2 * MARGIN), inside.height + LINE


def _drawing_parts(drawing: Drawing, placed: _Placed) -> list[str]:
    parts = [f'<text x="{MARGIN}" y="0" font-weight="bold">{_text(drawing.title)}</text>']
    for frame, (x, y), (width, height) in placed.frames:
        left, top = x - width / 2, y - height / 2
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" class="frame" '
            f'fill={quoteattr(frame.colour)} stroke="{_INK}" stroke-dasharray="4 3"/>'
        )
    for route in placed.routes:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in route)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_INK}" marker-end="url(#tip)"/>')
    for frame, (x, y), (width, height) in placed.frames:
        left, top = x - width / 2 + MARGIN, y - height / 2 + LINE
        halo = f'paint-order="stroke" stroke={quoteattr(frame.colour)} stroke-width="4"'
        parts.append(f'<text x="{left:.1f}" y="{top:.1f}" {halo}>{_text(frame.title)}</text>')
    for name, box in drawing.boxes.items():
        parts += _box_parts(box, placed.centres[name])
    return parts


def _box_parts(box: Box, centre: Point) -> list[str]:
    (x, y), (width, height) = centre, _size(box)
    dashes = ' stroke-dasharray="5 3"' if box.is_dashed else ""
    note = f"<title>{_text(box.note)}</title>" if box.note else ""
    parts = [
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" '
        f'fill={quoteattr(box.colour)} stroke="{_INK}" stroke-width="{3 if box.is_output else 1}"{dashes}>{note}</rect>'
    ]
    top = y - height / 2 + LINE
    for place, line in enumerate(box.lines):
        parts.append(f'<text x="{x:.1f}" y="{top + LINE * place:.1f}" text-anchor="middle">{_text(line)}</text>')
    return parts


def _text(text: str) -> str:
    """Text for XML, which has no control characters."""
    return escape("".join(letter if letter.isprintable() else "�" for letter in text))
