"""Uops that compute the same are one uop. Parts are optimized by themselves: a value that two parts compute, each in
its own way, would have two roundings.

before   %a = exp(%x)  %b = exp(%x)  %c = add(%a, %b)
after    %a = exp(%x)  %c = add(%a, %a)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from eqsat.looping.uop_key import uop_key
from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.uop.args import Arg


def merge_equal(graph: Graph) -> Graph:
    """The graph with equal outputs, of the same names. An output that equals an earlier uop becomes a movement, which
    leaves that uop's value as it is. A uop of several calls belongs to the call around them. A uop has a barrier if an
    equal uop has one."""
    first: dict[object, Ref] = {}
    same: dict[Ref, Ref] = {}
    outputs = set(graph.outputs)
    nodes: list[Node] = []
    calls: dict[Ref, tuple[Ref, ...]] = {}
    barriers: set[Ref] = set()
    for node in graph.nodes:
        src = tuple(read if isinstance(read, Imm) else same.get(read, read) for read in node.src)
        equal = first.setdefault(uop_key(node, src), node.id)
        if node.barrier:
            barriers.add(equal)
        calls[equal] = tuple(_common(calls.get(equal, node.calls), node.calls))
        if equal != node.id:
            same[node.id] = equal
        if equal == node.id or node.uop == "INPUT":
            nodes.append(msgspec.structs.replace(node, src=src))
        elif node.id in outputs:
            arg = Arg(result_shape=graph.types[node.id].shape)
            nodes.append(Node(node.id, "RESHAPE", (equal,), arg, node.tag))
    if not same:
        return graph
    merged = [
        msgspec.structs.replace(node, calls=calls.get(node.id, ()), barrier=node.id in barriers) for node in nodes
    ]
    return Graph.build(merged, graph.outputs)


def _common(one: Sequence[Ref], other: Sequence[Ref]) -> Iterator[Ref]:
    """The calls that both begin with."""
    for first, second in zip(one, other, strict=False):
        if first != second:
            return
        yield first
