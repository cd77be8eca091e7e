"""An e-graph in the JSON of the crate egraph-serialize, which egraph-visualizer and extraction-gym read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.egraph.view import EGraphView


def view_to_serialized(view: EGraphView, outputs: Sequence[str] = ()) -> dict[str, Any]:
    """`nodes` by id: op with its texts, children (nodes that stand for their classes), class and cost; `class_data`:
    the sort of each class as its type, and the names of the uops whose value it is; `root_eclasses`: the classes of the
    outputs.

    outputs: uops. The cost of every node is 1: a kernel's price belongs to no node (`eqsat explain` tells it).
    """
    ids = {
        (number, place): f"{node.ctor}-{number}-{place}"
        for number, nodes in view.classes.items()
        for place, node in enumerate(nodes)
    }
    nodes = {
        ids[number, place]: {
            "op": " ".join(map(str, (node.ctor, *node.texts))),
            "children": [ids[child, 0] for child in node.children],
            "eclass": str(number),
            "cost": 1.0,
            "subsumed": False,
        }
        for number, members in view.classes.items()
        for place, node in enumerate(members)
    }
    uops: dict[int, list[str]] = {}
    for uop, number in view.tiny.items():
        uops.setdefault(number, []).append(uop)
    classes = {
        str(number): {"type": sort.value, **({"let": ", ".join(uops[number])} if number in uops else {})}
        for number, sort in view.sorts.items()
        if number in view.classes
    }
    roots = dict.fromkeys(str(view.tiny[uop]) for uop in outputs if uop in view.tiny)
    return {"nodes": nodes, "root_eclasses": list(roots), "class_data": classes}
