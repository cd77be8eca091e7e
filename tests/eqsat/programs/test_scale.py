"""Repeated blocks cost the optimizer little: counts that must not grow with depth, or no faster than it."""

from collections.abc import Callable
from functools import cache

import pytest

from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering.cover_search import CoverSearch
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.enumeration import alternatives
from eqsat.extraction.enumeration.kernel_tree import Tree
from eqsat.extraction.extract import extract
from ir.tiny.graph import Graph
from tests.support.programs import graphs
from tests.support.programs.graphs import Tiny
from tests.support.stages.approximate import ApproximatePricer, saturated


@cache
def encoder(layers: int) -> tuple[Graph, EGraphView]:
    """The graph, and its e-graph saturated."""
    return saturated(graphs.encoder(layers, length=16, width=32, heads=4))


def constants_of(graph: Graph) -> tuple[str, ...]:
    return tuple(name for name in graph.inputs if name != "x")


def covered(graph: Graph, view: EGraphView) -> Cover:
    return extract(view, graph.outputs, ApproximatePricer(), constants=constants_of(graph))


def settled(layers: int) -> tuple[Candidates, int]:
    """The candidates of an encoder after a search, and the e-nodes of its e-graph."""
    graph, view = encoder(layers)
    candidates = Candidates(view, graph.outputs, ApproximatePricer(), constants_of(graph))
    CoverSearch(candidates, pareto).cover_with_known_prices()
    return candidates, sum(map(len, view.classes.values()))


def stacked(block: str, times: int) -> Graph:
    t = Tiny()
    x = t.input("x", 64, 128)
    for k in range(times):
        x = t.softmax(x) if block == "softmax" else t.layer_norm(x, f"n{k}")
    return t.graph(x)


@cache
def alone(block: str) -> Cover:
    return covered(*saturated(stacked(block, 1)))


@pytest.mark.exhaustive
def test_what_deeper_encoders_repeat_is_chosen_once() -> None:
    (four, four_nodes), (five, five_nodes), (six, six_nodes) = map(settled, (4, 5, 6))
    assert six_nodes - five_nodes == five_nodes - four_nodes, "e-nodes grow by the same for every layer"
    asked = [len(candidates.facts.memo) for candidates in (four, five, six)]
    assert asked[2] - asked[1] <= 0.02 * asked[1], "further layers ask what others have asked"
    trees = [len(candidates.forest) for candidates in (four, five, six)]
    assert trees[2] - trees[1] <= 1.05 * (trees[1] - trees[0])
    per_layer = trees[2] - trees[1]
    assert per_layer <= 5000, "copies of what was chosen, and nothing that was tried for it"


@pytest.mark.exhaustive
def test_deeper_encoders_price_no_more() -> None:
    two, three, four = (covered(*encoder(layers)) for layers in (2, 3, 4))
    assert max(three.priced, four.priced) <= 1.15 * two.priced, "but for what only one way of searching comes upon"
    times = [cover.time_ns for cover in (two, three, four)]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=1e-6)
    assert len(four.kernels) - len(three.kernels) == len(three.kernels) - len(two.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("block", ["softmax", "layer norm"])
@pytest.mark.parametrize("times", [2, 3, pytest.param(4, marks=pytest.mark.exhaustive), 6])
def test_stacked_blocks_take_no_more_kernels_than_apart(block: str, times: int) -> None:
    one, all_of_them = alone(block), covered(*saturated(stacked(block, times)))
    assert len(one.kernels) == 1
    assert len(all_of_them.kernels) <= times
    assert all_of_them.time_ns <= times * one.time_ns


def alternating(times: int) -> Graph:
    t = Tiny()
    x = t.input("x", 512, 256)
    for k in range(times):
        x = t.layer_norm(t.softmax(x), f"n{k}")
    return t.graph(t.softmax(x))


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        *(lambda: stacked("softmax", 6), lambda: stacked("layer norm", 6), lambda: alternating(1)),
        pytest.param(lambda: alternating(3), marks=pytest.mark.exhaustive),
    ],
    ids=["6 softmax", "6 layer norms", "softmax to softmax", "softmax and layer norm in turn"],
)
def test_a_chain_of_any_length_can_be_one_kernel(build: Callable[[], Graph]) -> None:
    """Memory is what these prices are made of: whatever is stored in between costs."""
    assert len(covered(*saturated(build())).kernels) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda: encoder(2),
        pytest.param(lambda: encoder(3), marks=pytest.mark.exhaustive),
        lambda: saturated(stacked("softmax", 3)),
        lambda: saturated(stacked("layer norm", 3)),
        lambda: saturated(graphs.attention()),
    ],
)
def test_copies_are_what_would_have_been_chosen(
    build: Callable[[], tuple[Graph, EGraphView]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, view = build()

    def candidates() -> dict[int, list[object]]:
        actual = Candidates(view, graph.outputs, ApproximatePricer(), constants_of(graph))
        CoverSearch(actual, pareto).cover_with_known_prices()
        buffers = [class_ for class_, nodes in view.classes.items() if any(node.ctor == "Store" for node in nodes)]
        return {buffer: list(map(known, actual.enumeration.of(buffer))) for buffer in buffers}

    def known(tree: Tree) -> object:
        result = sorted(str(accumulator) for accumulator in tree.accumulators)
        derived = tree.reads, tree.axes, tree.rank, tree.own, tree.flops, tree.ops, tree.finished, tree.captured
        return str(tree), tree.kinds, result, derived

    copied = candidates()
    monkeypatch.setattr(alternatives, "SMALL", 1 << 30)
    assert copied == candidates()
