"""Folds the uops of a graph into layers, which a drawing shows as one node each.

A layer is a run of uops, one after another in the order of the program, that have the same name: the beginning of
their tags; or the kernel that computes them, where the program has no tags or too many. Runs of a topological order
cannot depend on each other in a circle, so the folded graph is acyclic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from ir.tiny.graph import Graph, Node, Ref

LEAST_UOPS = 60
"""Graphs of fewer uops are drawn as they are."""
MOST_LAYERS = 64
"""Tags are cut after so many parts that there are at most as many layers, if possible."""


_Run = tuple[str, list[Node]]


class FoldedLayer(NamedTuple):
    """Uops that are drawn as one node. name: of the part of the model, or of the kernel."""

    name: str
    uops: tuple[Ref, ...]


def fold_uops(graph: Graph, kernel_of: Mapping[Ref, str]) -> list[FoldedLayer]:
    """The layers of a graph, in its order; none for a small graph. Inputs that several layers read are in none.

    kernel_of: the name of the kernel that computes a uop, if one does.
    """
    nodes = [node for node in graph.nodes if node.uop != "INPUT"]
    if len(nodes) < LEAST_UOPS:
        return []
    runs = _runs(nodes, kernel_of)
    layers = [FoldedLayer(name, tuple(node.id for node in run)) for name, run in runs]
    home = {uop: place for place, layer in enumerate(layers) for uop in layer.uops}
    inputs: dict[int, list[Ref]] = {}
    for node in graph.inputs.values():
        readers = {home[reader.id] for reader in graph.consumers[node.id]}
        if len(readers) == 1 and not _is_activation(node, graph):
            inputs.setdefault(readers.pop(), []).append(node.id)
    return [FoldedLayer(layer.name, (*inputs.get(place, ()), *layer.uops)) for place, layer in enumerate(layers)]


def _is_activation(node: Node, graph: Graph) -> bool:
    """Whether an input is the first of the signature, which a drawing shows on its own."""
    return node is next(iter(graph.inputs.values()))


def _runs(nodes: Sequence[Node], kernel_of: Mapping[Ref, str]) -> list[_Run]:
    """The runs of the finest tags that give at most `MOST_LAYERS` runs; else those of kernels, or of the coarsest tags,
    whichever are fewer."""
    tags = {node.id: parts for node in nodes if (parts := _parts(node))}
    by_kernel = _runs_by(nodes, kernel_of)
    if 2 * len(tags) < len(nodes):
        return by_kernel
    runs: list[_Run] = []
    for kept in range(max(map(len, tags.values())), 0, -1):
        runs = _runs_by(nodes, {uop: ".".join(parts[:kept]) for uop, parts in tags.items()})
        if len(runs) <= MOST_LAYERS:
            return runs
    return min(runs, by_kernel, key=len)


def _parts(node: Node) -> tuple[str, ...]:
    """The parts of a uop's name in the model: the calls that it stood in, and its tag."""
    tag = (node.tag or "").strip("/").replace("/", ".")
    return (*node.calls, *(part for part in tag.split(".") if part))


def _runs_by(nodes: Sequence[Node], name_of: Mapping[Ref, str]) -> list[_Run]:
    """Runs of uops with one name. A uop without a name belongs to the next one that has a name, since it prepares that
    one's operands."""
    names = [name_of.get(node.id) for node in nodes]
    following: str | None = None
    for place in range(len(nodes) - 1, -1, -1):
        following = names[place] = names[place] or following
    last = next((name for name in reversed(names) if name), "")
    named = [(name or last, node) for name, node in zip(names, nodes, strict=True)]
    return [(name, [node for _, node in run]) for name, run in groupby(named, key=lambda pair: pair[0])]
