"""Reduces a failing program: uops become inputs, outputs go, sizes shrink, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ir.diagnostics import EqsatError
from ir.tiny.bind import load
from ir.tiny.graph import Graph, Imm, Node
from ir.tiny.playback import values
from ir.uop.args import Arg

Arrays = dict[str, np.ndarray]
Smaller = tuple[Graph, Arrays]
Fails = Callable[[Graph, Arrays], bool]


def shrunk(
    graph: Graph, inputs: Mapping[str, np.ndarray], fails: Fails, budget: int = 60, seconds: float = 600
) -> Smaller:
    """A smaller graph, with inputs, on which `fails` holds as on this one; `budget` limits how often it is asked, and
    after `seconds` it is not asked again."""
    best: Smaller = (graph, dict(inputs))
    until, tried = time.monotonic() + seconds, set[str]()
    progress = True
    while progress:
        progress = False
        for way in (_fewer_outputs, _cut, _bypassed, _earlier_outputs, _smaller_sizes):
            place = 0
            while (result := _nth(way(*best), place)) is not None:
                if not budget or time.monotonic() > until:
                    return best
                key = f"{result[0]}"
                if key not in tried:
                    tried.add(key)
                    budget -= 1
                    if fails(*result):
                        best, progress = result, True
                        continue
                place += 1
    return best


def _nth(candidates: Iterator[Smaller], place: int) -> Smaller | None:
    return next((candidate for at, candidate in enumerate(candidates) if at == place), None)


def _fewer_outputs(graph: Graph, inputs: Arrays) -> Iterator[Smaller]:
    """One output alone, or all but one."""
    if len(graph.outputs) > 1:
        for ref in graph.outputs:
            yield from _built(graph.nodes, (ref,), inputs)
    if len(graph.outputs) > 2:
        for ref in graph.outputs:
            yield from _built(graph.nodes, tuple(output for output in graph.outputs if output != ref), inputs)


def _cut(graph: Graph, inputs: Arrays) -> Iterator[Smaller]:
    """A value as an input; first those that most is computed for."""
    known = values(graph, inputs)
    results: list[Smaller] = []
    for node in graph.nodes:
        if node.refs and node.id not in graph.outputs:
            type_, name = graph.types[node.id], f"cut_{node.id}"
            cut = Node(node.id, "INPUT", (), Arg(tensor_id=name, dtype=type_.dtype.name, shape=type_.shape))
            nodes = [cut if other is node else other for other in graph.nodes]
            results += _built(nodes, graph.outputs, {**inputs, name: np.array(known[node.id], order="C")})
    yield from sorted(results, key=lambda attempt: len(attempt[0].nodes))


def _bypassed(graph: Graph, inputs: Arrays) -> Iterator[Smaller]:
    """A uop whose result is like an operand gives way to that."""
    for node in graph.nodes:
        for ref in node.refs:
            if graph.types[ref] == graph.types[node.id] and node.id not in graph.outputs:
                yield from _built(_without(graph, node, ref), graph.outputs, inputs)


def _earlier_outputs(graph: Graph, inputs: Arrays) -> Iterator[Smaller]:
    """The operands of an output in its place, together or one of them."""
    for node in graph.nodes:
        if node.id in graph.outputs and node.refs:
            refs = tuple(dict.fromkeys(node.refs))
            for outputs in (refs, *((ref,) for ref in refs if len(refs) > 1)):
                yield from _built(graph.nodes, outputs, inputs)


def _smaller_sizes(graph: Graph, inputs: Arrays) -> Iterator[Smaller]:
    """One size smaller wherever a shape names it."""
    document = graph.to_json()
    sizes = sorted({size for type_ in graph.types.values() for size in type_.shape if size > 1}, reverse=True)
    for size in sizes:
        for smaller in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < smaller < size:
                try:
                    resized, _ = load(_resized(document, size, smaller), strict=True)
                except EqsatError:
                    continue
                shapes = {name: resized.types[node.id].shape for name, node in resized.inputs.items()}
                if shapes.keys() == inputs.keys():
                    yield resized, {name: _corner(inputs[name], shape) for name, shape in shapes.items()}


def _resized(document: Any, size: int, smaller: int) -> Any:
    """The document with other sizes in the shapes of its inputs, reshapes and expansions, and in where cuts end."""
    uops = []
    for uop in document["uops"]:
        arg = dict(uop.get("arg", {}))
        for name in ("shape", "result_shape", "hi"):
            if name in arg:
                arg[name] = [smaller if extent == size else extent for extent in arg[name]]
        uops.append({**uop, "arg": arg})
    return {**document, "uops": uops}


def _corner(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(array[tuple(map(slice, shape))], order="C")


def _without(graph: Graph, gone: Node, instead: str) -> list[Node]:
    return [
        Node(other.id, other.uop, tuple(instead if ref == gone.id else ref for ref in other.src), other.arg)
        for other in graph.nodes
        if other is not gone
    ]


def _built(nodes: list[Node] | tuple[Node, ...], outputs: tuple[str, ...], inputs: Arrays) -> Iterator[Smaller]:
    """The graph of what the outputs need."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if node.id in needed:
            kept.append(node)
            needed.update(operand for operand in node.src if not isinstance(operand, Imm))
    try:
        graph = Graph.build(reversed(kept), outputs)
    except EqsatError:
        return
    if any(node.uop != "INPUT" for node in graph.nodes):
        yield graph, {name: inputs[name] for name in graph.inputs}
