"""Candidate kernels of a buffer, and the regions they become."""

import gc

import numpy as np
import pytest

from eqsat.egraph.buffers import constant_classes, input_classes
from eqsat.egraph.enode import ENode
from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.covering.cover_search import CoverSearch
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.enumeration.as_written import as_written
from eqsat.extraction.enumeration.enumeration import EGraphFacts, Enumeration
from eqsat.extraction.enumeration.kernel_tree import Forest, Tree, rules_of, subtrees
from eqsat.extraction.enumeration.limits import EnumerationLimits
from eqsat.extraction.enumeration.structures import Structure
from eqsat.extraction.term_to_region import Written, region_of_several
from eqsat.garbage_collector import uncollected
from ir.region.region import Buffer, MemRef, Region, verify
from ir.term.language import CTORS
from ir.tiny.graph import Graph
from ir.uop.table import UOPS
from tests.support.fuzz.strategies import random_graph
from tests.support.programs import graphs
from tests.support.programs.graphs import Tiny
from tests.support.stages.approximate import ApproximatePricer, saturated

BOUND = ApproximatePricer().lower_bound


def enumeration(graph: Graph, view: EGraphView, limits: EnumerationLimits | None = None) -> Enumeration:
    roots = [view.tiny[ref] for ref in graph.outputs]
    return Enumeration(EGraphFacts(view, BOUND, roots, limits=limits or EnumerationLimits()))


def names(view: EGraphView) -> dict[int, str]:
    return {buffer: name for name, buffer in input_classes(view).items()}


def region(enumeration: Enumeration, buffer: int, tree: object, name_of: dict[int, str]) -> Region:
    def edge(edge_buffer: int) -> Buffer:
        type_ = enumeration.forest.type_of(edge_buffer)
        return Buffer(name_of.get(edge_buffer, f"t{edge_buffer}"), MemRef(type_.shape, type_.dtype.name))

    return region_of_several([Written(tree, edge(buffer))], edge)[0]  # type: ignore[arg-type]


def test_the_best_candidate_of_a_gemm_with_epilogue_is_one_kernel() -> None:
    graph, view = saturated(graphs.gemm_bias_relu(4, 6, 8))
    result = enumeration(graph, view)
    (output,) = (view.tiny[ref] for ref in graph.outputs)
    best = result.of(output)[0]
    assert set(best.reads) == set(input_classes(view).values())
    assert best.kinds == ("Contract",)
    assert best.flops == 2 * 4 * 6 * 8 + 2 * 4 * 6
    built = region(result, output, best, names(view))
    verify(built)
    assert [let.op.kind for let in built.body] == ["contraction", "ewise", "unary"]
    assert built.name == "dot_add_relu"
    assert [buffer.memref.shape for buffer in built.inputs] == [(4, 8), (8, 6), (6,)]


def test_as_written_is_one_uop() -> None:
    graph, view = saturated(graphs.gemm_bias_relu())
    result = enumeration(graph, view)
    for node in graph.nodes:
        if node.uop != "INPUT":
            tree = as_written(result.forest, view.tiny[node.id])
            assert tree is not None
            assert not rules_of(view, [tree])
            assert tree.ops <= 1


@pytest.mark.slow
def test_every_candidate_is_a_valid_region_within_the_limits() -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        graph, view = saturated(random_graph(rng, 10))
        limits = EnumerationLimits(alternatives=3, candidates=5)
        result = enumeration(graph, view, limits)
        for ref in graph.outputs:
            buffer = view.tiny[ref]
            if buffer not in names(view):
                candidates = result.of(buffer)
                assert candidates
                kinds = [tree.kinds for tree in candidates]
                assert all(kinds.count(kind) <= limits.candidates for kind in kinds)
                for tree in candidates:
                    assert buffer not in tree.reads
                    verify(region(result, buffer, tree, names(view)))


def test_a_contraction_stands_alone() -> None:
    t = Tiny()
    x = t.input("x", 5, 8)
    both = t.op("ADD", t.linear(x, "a", 6), t.linear(x, "b", 6))
    graph, view = saturated(t.graph(both))
    for tree in enumeration(graph, view).of(view.tiny[both]):
        assert "Contract" not in tree.kinds or len(tree.kinds) == 1
        assert len(tree.kinds) <= 2


def test_a_shared_value_is_computed_and_counted_once() -> None:
    t = Tiny()
    x = t.input("x", 10)
    e = t.op("EXP", x)
    graph, view = saturated(t.graph(t.op("MUL", e, e)))
    result = enumeration(graph, view)
    buffer = view.tiny[graph.outputs[0]]
    best = next(tree for tree in result.of(buffer) if set(tree.reads) == {view.tiny[x]})
    assert best.flops == 10 * UOPS["EXP"].flops + 10
    assert [let.op.fn for let in region(result, buffer, best, names(view)).body] == ["exp", "mul"]


def test_values_live_on_the_axes_they_depend_on() -> None:
    t = Tiny()
    x, bias = t.input("x", 4, 6), t.input("bias", 6)
    y = t.op("ADD", x, t.along(t.op("EXP", bias), 1, (4, 6)))
    graph, view = saturated(t.graph(y))
    result = enumeration(graph, view)
    buffer = view.tiny[y]
    best = next(tree for tree in result.of(buffer) if set(tree.reads) == {view.tiny[x], view.tiny[bias]})
    built = region(result, buffer, best, names(view))
    exp = next(let.op for let in built.body if let.op.fn == "exp")
    assert exp.domain == (6,)
    assert best.flops == 6 * UOPS["EXP"].flops + 24


def test_cyclic_classes_end() -> None:
    """relu(relu(x)) = relu(x), as a class that contains itself."""
    ident = "[4] -> [i0]"
    nodes = {
        0: (ENode("Input", ("x", "fp32[4]")),),
        1: (ENode("Load", (0, ident)),),
        2: (ENode("PUn", ("relu", "fp32", 1)), ENode("PUn", ("relu", "fp32", 2))),
        3: (ENode("Pure", (2,)),),
        4: (ENode("Store", (3, "fp32[4]")),),
    }
    sorts = {class_: CTORS[several[0].ctor].result for class_, several in nodes.items()}
    view = EGraphView(nodes, sorts, {"y": 4}, {})
    (only,) = Enumeration(EGraphFacts(view, BOUND, [4])).of(4)
    assert only.flops == 4


def test_shapes_forget_which_buffers_only() -> None:
    t = Tiny()
    x, y = t.input("x", 4), t.input("y", 4)
    a, b = t.op("ADD", x, t.op("EXP", x)), t.op("ADD", y, t.op("EXP", y))
    c, d = t.op("ADD", x, t.op("EXP", y)), t.op("ADD", x, t.op("EXP2", x))
    graph, view = saturated(t.graph(a, b, c, d))
    result = enumeration(graph, view)

    def shape(ref: str) -> Structure:
        return result.forest.structure_of(result.of(view.tiny[ref])[0])

    assert shape(a).number == shape(b).number
    assert len({shape(tree).number for tree in (a, c, d)}) == 3
    assert [shape(tree).buffers for tree in (a, b)] == [(view.tiny[x],), (view.tiny[y],)]


def test_trees_are_shared() -> None:
    _, view = saturated(graphs.gemm_bias_relu())
    forest = Forest(view)
    load = next(node for nodes in view.classes.values() for node in nodes if node.ctor == "Load")
    assert forest.make(load, ()) is forest.make(load, ())
    assert subtrees(forest.make(load, ())) == [forest.make(load, ())]


def test_what_is_constant() -> None:
    t = Tiny()
    x, w = t.input("x", 4), t.input("w", 4)
    scale = t.op("RSQRT", t.op("ADD", w, 1e-5))
    y = t.op("MUL", x, scale)
    count = t.op("IOTA", shape=(4,), axis=0, dtype="fp32")
    z = t.op("ADD", count, w)
    _, view = saturated(t.graph(y, z))
    known = constant_classes(view, [view.tiny[w]])
    assert {view.tiny[name] for name in (w, scale, count, z)} <= known
    assert not {view.tiny[name] for name in (x, y)} & known


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_single_axes(size: int) -> None:
    t = Tiny()
    x, w = t.input("x", 3, size), t.input("w", size, 4)
    y = t.matmul(x, w)
    graph, view = saturated(t.graph(y, t.op("RELU", x)))
    result = enumeration(graph, view)
    for ref in graph.outputs:
        for tree in result.of(view.tiny[ref]):
            verify(region(result, view.tiny[ref], tree, names(view)))


def test_a_product_of_much_reuse_is_a_contraction_and_no_plain_sum() -> None:
    for size, summed in ((4, True), (256, False)):
        graph, view = saturated(graphs.gemm_bias_relu(size, size, size))
        (output,) = (view.tiny[ref] for ref in graph.outputs)
        kinds = {tree.kinds for tree in enumeration(graph, view).of(output)}
        assert ("Contract",) in kinds
        assert (("Reduce",) in kinds) == summed


def test_what_is_mostly_padding_is_read_and_not_computed() -> None:
    """Two products far apart in one result: what lies between would be computed as well."""
    for size, computed in ((2, True), (256, False)):
        t = Tiny()
        a, b, c = t.input("a", size, size), t.input("b", size, size), t.input("c", size, size)
        left = t.op("PAD", t.matmul(a, b), pad=[(0, 0), (0, 15 * size)], value=0.0)
        right = t.op("PAD", t.matmul(a, c), pad=[(0, 0), (15 * size, 0)], value=0.0)
        graph = t.graph(t.op("ADD", left, right))
        _, view = saturated(graph)
        (output,) = (view.tiny[ref] for ref in graph.outputs)
        result = enumeration(graph, view).of(output)
        assert any(not tree.kinds for tree in result)
        assert any(tree.kinds for tree in result) == computed


@pytest.mark.slow
def test_candidates_are_freed_without_the_collector() -> None:
    """They form no cycles: the collector, which is off while programs are optimized, would take long to find them."""
    graph, view = saturated(graphs.attention())

    def count() -> int:
        return sum(isinstance(one, Tree) for one in gc.get_objects())

    with uncollected():
        before = count()
        candidates = Candidates(view, graph.outputs, ApproximatePricer())
        CoverSearch(candidates, pareto).best()
        assert count() > before
        del candidates
        assert count() == before
