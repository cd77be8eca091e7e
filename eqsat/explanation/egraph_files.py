"""The files that an e-graph is written to: JSON for other tools, DOT and SVG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from eqsat.egraph.view import EGraphView
from eqsat.egraph.view_to_serialized import view_to_serialized
from eqsat.explanation.drawing_to_dot import drawings_to_dot
from eqsat.explanation.drawing_to_svg import drawings_to_svg
from eqsat.explanation.egraph_to_drawing import egraph_to_drawing
from ir.diagnostics import Kind, fail
from ir.host.output_file import write_output

SUFFIXES = (".json", ".dot", ".svg")
"""Suffixes of the files that an e-graph is written to."""
DRAWN_NODES = {".dot": 2_000, ".svg": 500}
"""Most e-nodes in a drawing; more would be unreadable."""


def write_egraph(view: EGraphView, outputs: Sequence[str], path: Path) -> None:
    """Writes an e-graph in the form that the suffix of the file names: egraph-serialize's JSON, DOT or SVG.

    outputs: the uops whose classes are the roots.

    Raises:
        EqsatError: InvalidOption for another suffix; ResourceExceeded if the e-graph is too large to draw.
    """
    if path.suffix not in SUFFIXES:
        fail(Kind.INVALID_OPTION, "egraph", f"{path.suffix!r} is none of {', '.join(SUFFIXES)}", at=str(path))
    count, most = sum(map(len, view.classes.values())), DRAWN_NODES.get(path.suffix)
    if most is not None and count > most:
        message = f"an e-graph of {count} nodes cannot be read as a drawing; {path.suffix} has {most} at most"
        hint = "a part: eqsat explore --around KERNEL --steps 1, run.egraph(kernel, 1); or all of it as .json"
        fail(Kind.RESOURCE_EXCEEDED, "egraph", message, hint=hint, limit=most)
    if path.suffix == ".json":
        text = json.dumps(view_to_serialized(view, outputs), indent=1)
    else:
        drawing = egraph_to_drawing(view, outputs)
        text = drawings_to_svg([drawing]) if path.suffix == ".svg" else drawings_to_dot([drawing])
    write_output(path, text.encode(), "egraph")
