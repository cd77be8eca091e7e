"""Drawings → DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eqsat.explanation.drawing import Box, Drawing


def drawings_to_dot(drawings: Sequence[Drawing]) -> str:
    """The text of one digraph: a cluster for every drawing, with a cluster for every frame in it."""
    lines = [
        "digraph program {",
        "  compound=true; rankdir=TB; graph [fontname=monospace];",
        '  node [shape=box, style="rounded,filled", fontname=monospace];',
    ]
    for place, drawing in enumerate(drawings):
        lines += [f"  {line}" for line in _drawing_lines(place, drawing)]
    return "\n".join([*lines, "}", ""])


def _drawing_lines(place: int, drawing: Drawing) -> Iterator[str]:
    number = {name: f"d{place}_{index}" for index, name in enumerate(drawing.boxes)}
    clusters = {frame.name: f"cluster_{place}_{index}" for index, frame in enumerate(drawing.frames) if frame.name}
    first = {frame.name: number[frame.boxes[0]] for frame in drawing.frames if frame.name}
    yield f"subgraph cluster_{place} {{"
    yield f"  label={quote(drawing.title)};"
    framed = {name for frame in drawing.frames for name in frame.boxes}
    for index, frame in enumerate(drawing.frames):
        yield f"  subgraph cluster_{place}_{index} {{"
        yield f'    label={quote(frame.title)}; style=filled; color="{frame.colour}";'
        yield from (f"    {_box_line(number[name], drawing.boxes[name])}" for name in frame.boxes)
        yield "  }"
    yield from (f"  {_box_line(number[name], box)}" for name, box in drawing.boxes.items() if name not in framed)
    yield "}"
    for a, b in drawing.edges:
        head = f" [lhead={clusters[b]}]" if b in clusters else ""
        yield f"{number[a]} -> {first.get(b) or number[b]}{head};"


def _box_line(name: str, box: Box) -> str:
    extra = ", penwidth=3" if box.is_output else ""
    extra += ', style="rounded,filled,dashed"' if box.is_dashed else ""
    extra += f", tooltip={quote(box.note)}" if box.note else ""
    return f'{name} [label={quote(chr(10).join(box.lines))}, fillcolor="{box.colour}"{extra}];'


def quote(text: str) -> str:
    """A string of the language DOT."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
