"""E-graph → drawing: a frame for every class around its e-nodes, arrows from e-nodes to the classes that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.explanation.drawing import Box, Drawing, Frame
from ir.term.language import GIVEN, Sort

LETTERS = 44
"""Most letters of an e-node in a drawing; the note has all."""
_GROUNDS = {Sort.BUF: "#dbe9f6", Sort.PRO: "#e5f5e0", Sort.ACC: "#fee6ce", Sort.EPI: "#efedf5"}
_PAPER = "#ffffff"


def egraph_to_drawing(view: EGraphView, outputs: Sequence[str] = ()) -> Drawing:
    """A frame with the sort, the number and the uops of every class. An e-node that a rule built has a dashed border,
    and the rule as its note. A class outside of a part of an e-graph is a box without a frame.

    outputs: uops; their classes' e-nodes have thick borders.
    """
    uops: dict[int, list[str]] = {}
    for uop, number in view.tiny.items():
        uops.setdefault(number, []).append(uop)
    roots = {view.tiny[uop] for uop in outputs if uop in view.tiny}
    boxes: dict[str, Box] = {}
    frames: list[Frame] = []
    for number, nodes in view.classes.items():
        if nodes[0].ctor == GIVEN.name:
            boxes[_class(number)] = Box((_cut(" ".join(map(str, nodes[0].texts))),), _GROUNDS[view.sorts[number]])
            continue
        named = {f"{number}.{place}": _box(node, view.rules, number in roots) for place, node in enumerate(nodes)}
        boxes |= named
        title = _cut(" ".join((view.sorts[number].value, str(number), *uops.get(number, ()))))
        frames.append(Frame(title, tuple(named), _GROUNDS[view.sorts[number]], _class(number)))
    edges = [
        (f"{number}.{place}", _class(child))
        for number, nodes in view.classes.items()
        for place, node in enumerate(nodes)
        for child in dict.fromkeys(node.children)
    ]
    count = sum(map(len, view.classes.values()))
    title = f"{count} e-nodes in {len(view.classes)} classes; dashed: built by a rule"
    return Drawing(title, boxes, tuple(edges), tuple(frames))


def _class(number: int) -> str:
    return f"class {number}"


def _box(node: ENode, rules: Mapping[ENode, str], is_root: bool) -> Box:
    text, rule = " ".join((node.ctor, *map(str, node.texts))), rules.get(node)
    note = f"{text}, by {rule}" if rule else text
    return Box((_cut(text),), _PAPER, is_root, note, rule is not None)


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
