"""An EGraphView as JSON, text, DOT, or SVG by Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from ir.diagnostics import Kind, fail
from ir.term.language import CTORS, Sort

DOT_NODES = 2_000
"""Most e-nodes in a drawing; more would be unreadable."""

_COLOURS = {Sort.BUF: "#dbe9f6", Sort.PRO: "#e5f5e0", Sort.ACC: "#fee6ce", Sort.EPI: "#efedf5"}


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


def to_dot(view: EGraphView) -> str:
    """Graphviz text: a box per class, a node per e-node, an edge to each class it reads; dashed if a rule built it.

    Raises:
        EqsatError: ResourceExceeded, for more than `DOT_NODES` e-nodes.
    """
    count = sum(map(len, view.classes.values()))
    if count > DOT_NODES:
        fail(
            Kind.RESOURCE_EXCEEDED,
            "egraph",
            f"an e-graph of {count} nodes is too large to draw",
            hint="dump it as JSON",
            limit=DOT_NODES,
        )
    lines = ["digraph egraph {", "  compound=true; rankdir=TB; node [shape=box, style=rounded, fontname=monospace];"]
    names: dict[int, list[str]] = {}
    for number, nodes in view.classes.items():
        for uop, class_ in view.tiny.items():
            if class_ == number:
                names.setdefault(number, []).append(uop)
        label = quote(f"{view.sorts[number].value} {number} {' '.join(names.get(number, []))}".strip())
        lines.append(f"  subgraph cluster_{number} {{ label={label}; style=filled;")
        lines.append(f'    color="{_COLOURS[view.sorts[number]]}";')
        lines += [f"    {line}" for line in _boxes(view, number, nodes)]
        lines.append("  }")
    for number, nodes in view.classes.items():
        lines += [f"  {line}" for line in _edges(number, nodes)]
    return "\n".join([*lines, "}", ""])


def to_svg(view: EGraphView) -> str:
    """The drawing as SVG, by Graphviz's `dot`.

    Raises:
        EqsatError: ResourceExceeded, as `to_dot`; UnsupportedOp, without a working `dot`.
    """
    text = to_dot(view)
    dot = shutil.which("dot")
    if dot is None:
        fail(Kind.UNSUPPORTED_OP, "egraph", "SVG needs Graphviz's `dot`", hint="install graphviz, or dump DOT")
    done = subprocess.run([dot, "-Tsvg"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(Kind.UNSUPPORTED_OP, "egraph", f"`dot` failed: {done.stderr.strip()}", hint="dump DOT instead")
    return done.stdout


def _node_json(view: EGraphView, node: ENode) -> dict[str, Any]:
    record: dict[str, Any] = {"ctor": node.ctor, **node.fields}
    if node in view.rules:
        record["rule"] = view.rules[node]
    return record


def _boxes(view: EGraphView, number: int, nodes: Sequence[ENode]) -> Iterator[str]:
    for position, node in enumerate(nodes):
        rule = view.rules.get(node)
        style = f', style="rounded,dashed", tooltip={quote(rule)}' if rule else ""
        yield f"n{number}_{position} [label={quote(' '.join([node.ctor, *map(str, node.texts)]))}{style}];"


def _edges(number: int, nodes: Sequence[ENode]) -> Iterator[str]:
    for position, node in enumerate(nodes):
        for child in node.children:
            yield f"n{number}_{position} -> n{child}_0 [lhead=cluster_{child}];"


def quote(text: str) -> str:
    """A string of the language DOT."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
