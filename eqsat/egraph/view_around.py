"""A part of an e-graph: the classes around some classes, as a view of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from ir.term.language import GIVEN


def view_around(view: EGraphView, centres: Collection[int], steps: int = 0) -> EGraphView:
    """The classes that are at most `steps` edges from the centres, towards operands or readers.

    A class outside that a node inside reads is one leaf, which names the class, and the uops whose value it is.
    """
    readers: dict[int, set[int]] = {}
    for number, nodes in view.classes.items():
        for node in nodes:
            for child in node.children:
                readers.setdefault(child, set()).add(number)
    inside = set(centres)
    ring = set(centres)
    for _ in range(steps):
        operands = {child for number in ring for node in view.classes[number] for child in node.children}
        ring = (operands | {reader for number in ring for reader in readers.get(number, ())}) - inside
        inside |= ring
    outside = {child for number in inside for node in view.classes[number] for child in node.children} - inside
    names = _uops_of(view)
    classes = {
        number: nodes if number in inside else (_leaf(number, names.get(number, ())),)
        for number, nodes in view.classes.items()
        if number in inside or number in outside
    }
    return EGraphView(
        classes=classes,
        sorts={number: view.sorts[number] for number in classes},
        tiny={uop: number for uop, number in view.tiny.items() if number in inside},
        rules={node: rule for number in inside for node in view.classes[number] if (rule := view.rules.get(node))},
    )


def _leaf(number: int, uops: Collection[str]) -> ENode:
    return ENode(GIVEN.name, (f"class {number}" + (f": {', '.join(uops)}" if uops else ""),))


def _uops_of(view: EGraphView) -> Mapping[int, list[str]]:
    names: dict[int, list[str]] = {}
    for uop, number in view.tiny.items():
        names.setdefault(number, []).append(uop)
    return names
