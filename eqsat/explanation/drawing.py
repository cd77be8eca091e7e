"""A drawing of a graph: boxes, arrows between them, and frames around boxes, such as those of one kernel."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ir.uop.table import UOPS, UOpKind

Edge = tuple[str, str]

_COLOURS: Mapping[UOpKind, str] = {
    UOpKind.INPUT: "#dbe9f6",
    UOpKind.INDEX: "#dbe9f6",
    UOpKind.MOVEMENT: "#f0f0f0",
    UOpKind.REDUCE: "#fee6ce",
    UOpKind.SCAN: "#fee6ce",
    UOpKind.GATHER: "#efedf5",
    UOpKind.SCATTER: "#efedf5",
}
_ELEMENTWISE = "#e5f5e0"


class Box(msgspec.Struct, frozen=True):
    """A box with lines of text. colour: of its ground, as #rrggbb. is_output: it has a thick border. note: shown under
    the pointer. is_dashed: its border is."""

    lines: tuple[str, ...]
    colour: str
    is_output: bool = False
    note: str = ""
    is_dashed: bool = False


class Frame(msgspec.Struct, frozen=True):
    """A titled frame around boxes, by their ids. colour: of its ground. name: its own id, if arrows end at it."""

    title: str
    boxes: tuple[str, ...]
    colour: str = "#fafafa"
    name: str = ""


class Drawing(msgspec.Struct, frozen=True):
    """Boxes by id, arrows from a box to a box or a frame, and frames, which share no box."""

    title: str
    boxes: Mapping[str, Box]
    edges: tuple[Edge, ...]
    frames: tuple[Frame, ...] = ()


def colour_of(uop: str) -> str:
    """The colour of a uop's kind."""
    return _COLOURS.get(UOPS[uop].kind, _ELEMENTWISE)
