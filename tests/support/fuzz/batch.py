"""Combines many small programs into one graph, compiled into one library and run by one call."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat import optimize_and_compile
from eqsat.runtime.program import Program
from ir.tiny.graph import Graph, Imm, Node

Arrays = dict[str, np.ndarray]


def merged(graphs: Sequence[Graph]) -> Graph:
    """One graph that computes them all: the ids and tensor_ids of graph k begin with `g{k}.`, outputs in order."""
    nodes = [_renamed(f"g{k}.", node) for k, graph in enumerate(graphs) for node in graph.nodes]
    return Graph.build(nodes, [f"g{k}.{ref}" for k, graph in enumerate(graphs) for ref in graph.outputs])


def merged_inputs(inputs: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
    """The inputs of a merged graph."""
    return {f"g{k}.{name}": array for k, arrays in enumerate(inputs) for name, array in arrays.items()}


def parted(graphs: Sequence[Graph], results: Sequence[np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """The merged graph's outputs, graph by graph."""
    parts, at = [], 0
    for graph in graphs:
        parts.append(tuple(results[at : at + len(graph.outputs)]))
        at += len(graph.outputs)
    return parts


def compile_batch(graphs: Sequence[Graph], constants: Mapping[str, np.ndarray], **options: Any) -> Program:
    """One program for them all; `constants` are named as in the merged graph."""
    return optimize_and_compile(merged(graphs), constants=constants, cache=False, **options)


def run_batch(
    program: Program, graphs: Sequence[Graph], inputs: Sequence[Arrays], constants: Container[str] = ()
) -> list[tuple[np.ndarray, ...]]:
    """The outputs of every graph on its inputs."""
    given = {name: array for name, array in merged_inputs(inputs).items() if name not in constants}
    results = program(**given)
    return parted(graphs, results if isinstance(results, tuple) else (results,))


def _renamed(prefix: str, node: Node) -> Node:
    src = tuple(operand if isinstance(operand, Imm) else prefix + operand for operand in node.src)
    arg = node.arg.with_(tensor_id=prefix + node.arg["tensor_id"]) if node.uop == "INPUT" else node.arg
    return Node(prefix + node.id, node.uop, src, arg, node.tag)
