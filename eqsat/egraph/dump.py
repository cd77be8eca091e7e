"""An EGraphView as JSON or text."""

from __future__ import annotations

from typing import Any

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from ir.term.language import CTORS, Sort


def to_json(view: EGraphView) -> dict[str, Any]:
    """`classes`: each with its number, sort and nodes; `tiny`: uop → class.

    A node is {"ctor", its arguments by name, "rule": the rule that built it, if one did}.
    """
    return {
        "classes": [
            {
                "class": number,
                "sort": view.sorts[number].value,
                "nodes": [_node_json(view, node) for node in nodes],
            }
            for number, nodes in view.classes.items()
        ],
        "tiny": dict(view.tiny),
    }


def from_json(data: dict[str, Any]) -> EGraphView:
    """The view that `to_json` wrote."""
    classes: dict[int, tuple[ENode, ...]] = {}
    rules: dict[ENode, str] = {}
    for record in data["classes"]:
        nodes = []
        for item in record["nodes"]:
            node = ENode(item["ctor"], tuple(item[field] for field in CTORS[item["ctor"]].places))
            nodes.append(node)
            if "rule" in item:
                rules[node] = item["rule"]
        classes[record["class"]] = tuple(nodes)
    sorts = {record["class"]: Sort(record["sort"]) for record in data["classes"]}
    return EGraphView(classes=classes, sorts=sorts, tiny=dict(data["tiny"]), rules=rules)


def to_text(view: EGraphView) -> str:
    """A line per class, with its sort and the uops whose value it is, then a line per e-node, with the rule that built
    it."""
    uops: dict[int, list[str]] = {}
    for uop, number in view.tiny.items():
        uops.setdefault(number, []).append(uop)
    lines = []
    for number, nodes in view.classes.items():
        lines.append(" ".join((f"{number}: {view.sorts[number].value}", *uops.get(number, ()))))
        for node in nodes:
            fields = " ".join(f"{name}={value}" for name, value in node.fields.items())
            rule = view.rules.get(node)
            lines.append(f"  {node.ctor} {fields}{f'   ({rule})' if rule else ''}")
    return "\n".join(lines)


def _node_json(view: EGraphView, node: ENode) -> dict[str, Any]:
    record: dict[str, Any] = {"ctor": node.ctor, **node.fields}
    if node in view.rules:
        record["rule"] = view.rules[node]
    return record
