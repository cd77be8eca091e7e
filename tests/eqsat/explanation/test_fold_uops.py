"""Layers of a drawing: each uop is in at most one, and the folded graph has no circle."""

from __future__ import annotations

import networkx as nx
import pytest

from eqsat import tensor as t
from eqsat.explanation.fold_uops import LEAST_UOPS, MOST_LAYERS, fold_uops
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from ir.tiny.bind import load
from ir.tiny.graph import Graph


def tagged_stack(depth: int, tags: int) -> Graph:
    """A stack of `depth` residual layers, the tags of which have `tags` parts."""
    x = t.input("x", (4, 8))
    for layer in range(depth):
        with t.tagged(".".join(["stack", str(layer // 4), str(layer)][:tags]) if tags else "all"):
            x = x + (x @ t.input(f"w{layer}", (8, 8))).relu()
    return load(tensor_to_tiny(x)[0])[0]


@pytest.mark.parametrize(("depth", "tags", "layers"), [(12, 3, 12), (12, 2, 3), (80, 3, 20), (12, 1, 1)])
def test_the_finest_tags_that_are_few_enough_make_the_layers(depth: int, tags: int, layers: int) -> None:
    graph = tagged_stack(depth, tags)
    folded = fold_uops(graph, {})
    assert len(folded) == layers <= MOST_LAYERS
    uops = [uop for layer in folded for uop in layer.uops]
    assert len(uops) == len(set(uops)) == len(graph.nodes) - 1  # all but x
    home = {uop: place for place, layer in enumerate(folded) for uop in layer.uops}
    edges = [(home.get(ref, ref), home[node.id]) for node in graph.nodes for ref in node.refs]
    assert nx.is_directed_acyclic_graph(nx.DiGraph((a, b) for a, b in edges if a != b))


def test_small_graphs_stay_as_they_are_and_kernels_stand_in_for_tags() -> None:
    assert fold_uops(tagged_stack(3, 3), {}) == []
    x = t.input("x", (4, 8))
    for _ in range(LEAST_UOPS):
        x = x.relu() * 2
    graph = load(tensor_to_tiny(x)[0])[0]
    nodes = [node.id for node in graph.nodes if node.uop != "INPUT"]
    folded = fold_uops(graph, {uop: "first" if place < 70 else "second" for place, uop in enumerate(nodes)})
    assert [(layer.name, len(layer.uops)) for layer in folded] == [("first", 70), ("second", len(nodes) - 70)]
