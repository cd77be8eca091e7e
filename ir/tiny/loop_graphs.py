"""The graphs of a program's loops: their names, and their uops with names in place of graphs.

A bound LOOP holds its graph. In text and JSON it holds the name of a graph, which stands beside the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ir.names import new_name
from ir.tiny.node import Node, StatedType
from ir.tiny.uops_to_text import body_lines, count_parameters, graph_lines
from ir.uop.loop_body import LoopBody

Names = Mapping[LoopBody, str]


def body_of(node: Node) -> LoopBody | None:
    """The graph that a bound LOOP runs; None for other uops."""
    body = node.arg.get("graph")
    return body if isinstance(body, LoopBody) else None


def bodies_of(nodes: Iterable[Node]) -> list[LoopBody]:
    """The graphs of the loops among these uops, one per LOOP."""
    return [body for body in map(body_of, nodes) if body is not None]


def name_bodies(bodies: Iterable[LoopBody]) -> dict[LoopBody, str]:
    """These graphs, and those of loops inside them, inner ones first, each with a name of its own."""
    names: dict[LoopBody, str] = {}
    taken: set[str] = set()

    def visit(bodies: Iterable[LoopBody]) -> None:
        for body in bodies:
            if body not in names:
                visit(bodies_of(body.graph.nodes))
                names[body] = new_name(body.name, taken)
                taken.add(names[body])

    visit(bodies)
    return names


def with_names(nodes: Iterable[Node], names: Names) -> list[Node]:
    """The uops with the names of graphs in place of the graphs."""
    return [
        node if body is None else msgspec.structs.replace(node, arg=node.arg.with_(graph=names[body]))
        for node in nodes
        for body in [body_of(node)]
    ]


def program_json(nodes: Sequence[Node], outputs: Sequence[str]) -> dict[str, Any]:
    """A bound program as Tiny JSON."""
    names = name_bodies(bodies_of(nodes))
    program = _graph_json(nodes, outputs, names)
    return {**program, "graphs": graphs_json(names)} if names else program


def graphs_json(names: Names) -> dict[str, Any]:
    """The named graphs as the `graphs` of Tiny JSON."""
    return {name: _graph_json(body.graph.nodes, body.graph.outputs, names) for body, name in names.items()}


def program_text(nodes: Sequence[Node], outputs: Sequence[str], stated: Mapping[str, StatedType]) -> str:
    """A bound program as Tiny text. stated: the types to state of its values."""
    names = name_bodies(bodies_of(nodes))
    blocks = [_graph_text(name, body, names) for body, name in names.items()]
    return "\n\n".join([*blocks, "\n".join(body_lines(with_names(nodes, names), stated, outputs, {}))])


def _graph_json(nodes: Sequence[Node], outputs: Sequence[str], names: Names) -> dict[str, Any]:
    return {"uops": [node.to_json() for node in with_names(nodes, names)], "outputs": list(outputs)}


def _graph_text(name: str, body: LoopBody, names: Names) -> str:
    graph, nodes = body.graph, with_names(body.graph.nodes, names)
    stated = {ref: StatedType.of(type_) for ref, type_ in graph.types.items()}
    inner = body_lines(nodes[count_parameters(nodes) :], stated, graph.outputs, {})
    return "\n".join(graph_lines(name, nodes, inner))
