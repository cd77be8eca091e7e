"""Call of a graph → the uops of the graph, named below the call: the uop `h` of the call `layer1` is `layer1/h`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ir.tiny.graph import Graph
from ir.tiny.node import GraphCall, Imm, Node, Ref


def call_to_uops(call: GraphCall, body: Graph, fresh: Callable[[Ref], Ref]) -> tuple[tuple[Node, ...], tuple[Ref, ...]]:
    """The uops that compute the call's results, and the id of each result: that of the call, unless two results are one
    value or a result is an operand.

    Names of axes are the graph's own affair: `body` is bound, so that its axes are positions, and its names stay out of
    the caller. Tags of the graph stand below the tag of the call. body: the graph for operands of these types. fresh: a
    free id, the wished one if that is free.
    """
    operand_of = dict(zip(body.inputs, call.refs, strict=True))
    names: dict[Ref, Ref] = {}
    for node in body.nodes:
        if node.uop == "INPUT":
            names[node.id] = operand_of[node.arg["tensor_id"]]
    for result, output in zip(call.results, body.outputs, strict=True):
        names.setdefault(output, result)
    nodes = []
    for node in body.nodes:
        if node.uop == "INPUT":
            continue
        if node.id not in names:
            names[node.id] = fresh(f"{call.id}/{node.id}")
        src = tuple(read if isinstance(read, Imm) else names[read] for read in node.src)
        arg = node.arg.with_(names=None)
        tag = ".".join(filter(None, (call.tag, node.tag))) or None
        nodes.append(msgspec.structs.replace(node, id=names[node.id], src=src, arg=arg, tag=tag))
    return tuple(nodes), tuple(names[output] for output in body.outputs)
