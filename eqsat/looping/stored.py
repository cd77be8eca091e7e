"""Which values lie in memory between two parts of a program, and which parts compute the other values anew."""

from __future__ import annotations

from collections.abc import Mapping

from ir.tiny.graph import Graph, Node, Ref
from ir.uop.table import UOpKind


def is_free(node: Node) -> bool:
    """Whether every part that reads a value computes it anew: a movement, or a value that reads nothing."""
    return node.op.kind is UOpKind.MOVEMENT or (not node.refs and node.uop != "INPUT")


def live_uops(graph: Graph) -> set[Ref]:
    """The values that the outputs need."""
    live = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.id in live:
            live.update(node.refs)
    return live


def stored_sources(graph: Graph) -> Mapping[Ref, frozenset[Ref]]:
    """For each value, the values in memory that a part reads where it reads this value: the value itself, or what a
    free value is computed from."""
    sources: dict[Ref, frozenset[Ref]] = {}
    for node in graph.nodes:
        below = (sources[ref] for ref in node.refs)
        sources[node.id] = frozenset().union(*below) if is_free(node) else frozenset((node.id,))
    return sources
