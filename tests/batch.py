"""Many small programs as one: one graph, one library, one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ir.tiny import Graph, Imm, Node

Arrays = dict[str, np.ndarray]


def prefixed(prefix: str, graph: Graph) -> Graph:
    """The graph with `prefix` before every id and tensor_id."""
    return Graph.build([_renamed(prefix, node) for node in graph.nodes], [prefix + ref for ref in graph.outputs])


def merged(graphs: Sequence[Graph]) -> Graph:
    """One graph that computes them all: the ids and tensor_ids of graph k begin with `g{k}.`, outputs in order."""
    nodes = [_renamed(f"g{k}.", node) for k, graph in enumerate(graphs) for node in graph.nodes]
    return Graph.build(nodes, [f"g{k}.{ref}" for k, graph in enumerate(graphs) for ref in graph.outputs])


def merged_inputs(inputs: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
    """The inputs of a merged graph."""
    return {f"g{k}.{name}": array for k, each in enumerate(inputs) for name, array in each.items()}


def parted(graphs: Sequence[Graph], results: Sequence[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """The merged graph's outputs, graph by graph."""
    parts, at = [], 0
    for graph in graphs:
        parts.append(tuple(results[at : at + len(graph.outputs)]))
        at += len(graph.outputs)
    return parts


def compiled_results(graphs: Sequence[Graph], runs: Sequence[Sequence[Arrays]], **options: Any) -> list[list[Any]]:
    """What compiled code gives: `runs[r][k]` are the inputs of graph k in run r, the answer has the same nesting."""
    from eqsat import optimize_and_compile

    program = optimize_and_compile(merged(graphs), cache=False, **options)
    answers = []
    for inputs in runs:
        results = program(**merged_inputs(inputs))
        answers.append(parted(graphs, results if isinstance(results, tuple) else (results,)))
    return answers


def _renamed(prefix: str, node: Node) -> Node:
    src = tuple(each if isinstance(each, Imm) else prefix + each for each in node.src)
    arg = node.arg.with_(tensor_id=prefix + node.arg["tensor_id"]) if node.uop == "INPUT" else node.arg
    return Node(prefix + node.id, node.uop, src, arg, node.tag)
