"""Which tensors of a quantized network are stored as bytes, whatever kernels are chosen."""

from __future__ import annotations

from ir.tiny.graph import Graph, Node, Ref
from ir.uop.table import UOpKind


def stored_bytes(graph: Graph) -> frozenset[Ref]:
    """The uops that cast floats to 8-bit integers which more than elementwise uops read."""
    read: set[Ref] = set()
    stored: set[Ref] = set()
    for node in reversed(graph.nodes):
        rounds = _rounds_to_bytes(node, graph)
        if rounds and node.id in read:
            stored.add(node.id)
        pointwise = node.op.kind.is_elementwise or node.op.kind is UOpKind.MOVEMENT
        if not pointwise or (node.id in read and not rounds):
            read.update(node.refs)
    return frozenset(stored)


def _rounds_to_bytes(node: Node, graph: Graph) -> bool:
    if node.op.kind is not UOpKind.CAST:
        return False
    (source,), result = graph.operand_types(node), graph.types[node.id].dtype
    return source.dtype.is_float and result.is_int and result.bytes == 1
