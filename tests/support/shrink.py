"""The smallest program that still fails: uops become inputs, outputs go, as long as the same thing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ir.diagnostics import EqsatError
from ir.tiny import Graph, Imm, Node
from ir.tiny_playback import values
from ir.uop_args import Arg

Arrays = dict[str, np.ndarray]
Fails = Callable[[Graph, Arrays], bool]


def shrunk(graph: Graph, inputs: Mapping[str, np.ndarray], fails: Fails, budget: int = 60) -> tuple[Graph, Arrays]:
    """A smaller graph, with inputs, on which `fails` holds as on this one; `budget` limits how often it is asked."""
    best, given = graph, dict(inputs)
    progress = True
    while progress and budget:
        progress = False
        for smaller, arrays in _smaller(best, given):
            budget -= 1
            if fails(smaller, arrays):
                best, given, progress = smaller, arrays, True
                break
            if not budget:
                break
    return best, given


def _smaller(graph: Graph, inputs: Arrays) -> Iterator[tuple[Graph, Arrays]]:
    known = values(graph, inputs)
    if len(graph.outputs) > 1:
        for ref in graph.outputs:
            yield from _built(graph.nodes, (ref,), inputs)
    for node in graph.nodes:
        if node.uop == "INPUT":
            continue
        type_ = graph.types[node.id]
        for ref in node.refs:
            if graph.types[ref] == type_ and node.id not in graph.outputs:
                yield from _built(_without(graph, node, ref), graph.outputs, inputs)
        if node.refs and node.id not in graph.outputs:
            cut = Node(node.id, "INPUT", (), Arg(tensor_id=f"cut_{node.id}", dtype=type_.dtype.name, shape=type_.shape))
            nodes = [cut if each is node else each for each in graph.nodes]
            yield from _built(nodes, graph.outputs, {**inputs, f"cut_{node.id}": np.asarray(known[node.id], order="C")})
        if node.id in graph.outputs and node.refs:
            yield from _built(graph.nodes, tuple(dict.fromkeys(node.refs)), inputs)


def _without(graph: Graph, gone: Node, instead: str) -> list[Node]:
    return [
        Node(each.id, each.uop, tuple(instead if ref == gone.id else ref for ref in each.src), each.arg)
        for each in graph.nodes
        if each is not gone
    ]


def _built(
    nodes: list[Node] | tuple[Node, ...], outputs: tuple[str, ...], inputs: Arrays
) -> Iterator[tuple[Graph, Arrays]]:
    """The graph of what the outputs need."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if node.id in needed:
            kept.append(node)
            needed.update(each for each in node.src if not isinstance(each, Imm))
    try:
        graph = Graph.build(reversed(kept), outputs)
    except EqsatError:
        return
    if any(node.uop != "INPUT" for node in graph.nodes):
        yield graph, {name: inputs[name] for name in graph.inputs}
