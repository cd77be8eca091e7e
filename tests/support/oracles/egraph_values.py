"""Evaluates every node of an e-graph on arrays. An e-graph is sound if all nodes of a class have the same value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from ir.term.language import CTORS, Sort
from ir.term.playback import node_value


def enode_value(
    node: ENode, known: Mapping[int, np.ndarray], inputs: Mapping[str, Any], wide: bool = False
) -> np.ndarray:
    """The value of a node over children with `known` values."""
    args = [
        known[int(arg)] if sort.is_class else arg for arg, sort in zip(node.args, CTORS[node.ctor].args, strict=True)
    ]
    return node_value(node.ctor, args, inputs, wide)


def node_values(
    view: EGraphView, inputs: Mapping[str, Any], wide: bool = False
) -> Iterator[tuple[int, ENode, np.ndarray, np.ndarray]]:
    """Class, node, the node's value, and the value of the class's first node that could be evaluated."""
    known: dict[int, np.ndarray] = {}
    pending = [(number, node) for number, nodes in view.classes.items() for node in nodes]
    while pending:
        waiting = []
        for number, node in pending:
            if not known.keys() >= {*node.children}:
                waiting.append((number, node))
                continue
            value = enode_value(node, known, inputs, wide)
            yield number, node, value, known.setdefault(number, value)
        assert len(waiting) < len(pending), "a class can only be computed from itself"
        pending = waiting


def describe(view: EGraphView, number: int, node: ENode) -> str:
    others = [f"{node} by {view.rules.get(node)}" for node in view.classes[number]]
    return f"class {number}: {node} by {view.rules.get(node)}, beside " + "; ".join(others)


def fits_one_kernel(view: EGraphView, root: int) -> bool:
    """Whether a buffer's class holds a kernel that reads inputs only."""
    stored = {child for child in view.classes if view.sorts[child] is not Sort.BUF}
    inputs = {n for n, nodes in view.classes.items() if any(node.ctor == "Input" for node in nodes)}
    able: set[int] = set()
    while True:
        results = {
            number for number in stored - able if any(_readable(node, able | inputs) for node in view.classes[number])
        }
        if not results:
            break
        able |= results
    return any(node.value in able for node in view.stores(root))


def _readable(node: ENode, able: set[int]) -> bool:
    return node.ctor not in ("PView", "EView") and able.issuperset(node.children)
