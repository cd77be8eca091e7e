"""Covers: as few and as cheap kernels as there should be, and always the same numbers."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from eqsat.egraph.saturate import saturate
from eqsat.egraph.view import EGraphView
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover
from eqsat.extraction.covering import cover_search
from eqsat.extraction.covering.agreement import find_dispute
from eqsat.extraction.covering.cover_search import CoverSearch, price_all
from eqsat.extraction.covering.extractors import EXTRACTORS, ExtractorEntry
from eqsat.extraction.covering.oracles.binary_program import SolverLimits
from eqsat.extraction.covering.oracles.bound import bound
from eqsat.extraction.covering.oracles.exact import exact
from eqsat.extraction.covering.oracles.shuffled import shuffle
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.covering.problem import Covering, Problem
from eqsat.extraction.extract import extract
from eqsat.options import check_options
from ir.diagnostics import EqsatError, Kind, Severity
from ir.region.region import Region
from ir.tiny.graph import Graph
from rules import ORDINARY, select
from tests.support.fuzz.strategies import random_graph, random_inputs
from tests.support.programs import graphs
from tests.support.programs.graphs import Tiny
from tests.support.sampling import first_few
from tests.support.stages.approximate import ApproximatePricer, check, saturated
from tests.support.stages.random_covers import random_covers


def covered(graph: Graph, constants: tuple[str, ...] = (), extractor: str = "pareto") -> Cover:
    """The cover of a graph, played and compared."""
    return cover_of(*saturated(graph), constants, extractor)


def cover_of(graph: Graph, view: EGraphView, constants: tuple[str, ...] = (), extractor: str = "pareto") -> Cover:
    """The cover of a graph from its e-graph, played and compared."""
    cover = extract(view, graph.outputs, ApproximatePricer(), constants=constants, extractor=extractor)
    check(cover, view, graph, random_inputs(graph, np.random.default_rng(0)), constants)
    return cover


def softmax_attention() -> Graph:
    return graphs.attention(length=16, width=16, heads=2)


def residual_diamond() -> Graph:
    t = Tiny()
    x = t.input("x", 6, 8)
    a = t.op("RELU", t.linear(x, "a", 8))
    return t.graph(t.op("RELU", t.op("ADD", a, t.linear(a, "b", 8))))


def residual_block() -> Graph:
    t = Tiny()
    x = t.input("x", 1, 8, 6, 6)
    y = t.op("RELU", t.scale_shift(t.conv(x, "a", 4, 1), "a"))
    y = t.op("RELU", t.scale_shift(t.conv(y, "b", 4, 3), "b"))
    return t.graph(t.op("RELU", t.op("ADD", x, t.scale_shift(t.conv(y, "c", 8, 1), "c"))))


def shared_expression() -> Graph:
    t = Tiny()
    x = t.input("x", 64, 64)
    e = t.op("EXP", t.op("MUL", x, 0.5))
    return t.graph(t.reduce("SUM", e, 1), t.reduce("MAX", e, 0))


def movements() -> Graph:
    t = Tiny()
    x = t.permute(t.reshape(t.input("x", 4, 6), 2, 2, 6), 2, 0, 1)
    return t.graph(t.op("PAD", t.op("FLIP", x, axes=(0,)), pad=((1, 0), (0, 2), (0, 0)), value=3.0))


CASES: dict[str, tuple[Callable[[], Graph], int]] = {
    "gemm + bias + relu": (graphs.gemm_bias_relu, 1),
    "conv + bn + relu": (graphs.conv_bn_relu, 1),
    "softmax attention": (softmax_attention, 8),
    "residual diamond": (residual_diamond, 2),
    "a shared subexpression": (shared_expression, 3),
    "movements": (movements, 1),
}


@cache
def saturated_case(case: str) -> tuple[Graph, EGraphView]:
    """The graph of a case and its e-graph."""
    return saturated(CASES[case][0]())


@cache
def best_of(case: str) -> Cover:
    """The cover that the default extractor chooses, played and compared."""
    return cover_of(*saturated_case(case))


@pytest.mark.parametrize("case", CASES)
def test_kernels(case: str) -> None:
    cover, (_, most) = best_of(case), CASES[case]
    assert len(cover.kernels) <= most, [kernel.region.name for kernel in cover.kernels]


@pytest.mark.slow
@pytest.mark.parametrize("extractor", sorted(EXTRACTORS))
@pytest.mark.parametrize("case", CASES)
def test_every_extractor_computes_the_same(case: str, extractor: str) -> None:
    cover = cover_of(*saturated_case(case), extractor=extractor)
    assert best_of(case).time_ns <= cover.time_ns * 1.0001


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, pytest.param("encoder", marks=pytest.mark.exhaustive), "conv block"])
def test_no_extractor_beats_the_bound(case: str) -> None:
    others = {"encoder": lambda: graphs.encoder(1, 16, 32, 4), "conv block": residual_block}
    graph, view = saturated_case(case) if case in CASES else saturated(others[case]())
    constants = tuple(tensor for tensor in graph.inputs if tensor != "x")
    pricer = ApproximatePricer()
    least = bound(view, graph.outputs, pricer, constants=constants)
    covers = {
        name: extract(view, graph.outputs, pricer, constants=constants, extractor=name, joining=False, relayout=False)
        for name in sorted(EXTRACTORS)
    }
    check(covers["exact"], view, graph, random_inputs(graph, np.random.default_rng(0)), constants)
    check(covers["windowed"], view, graph, random_inputs(graph, np.random.default_rng(0)), constants)
    slack = 1 + 1e-6
    assert least.linear_ns <= least.proven_ns * slack
    assert least.proven_ns == pytest.approx(covers["exact"].time_ns, rel=1e-6)
    assert covers["exact"].time_ns <= covers["windowed"].time_ns * slack
    assert covers["windowed"].time_ns <= covers["pareto"].time_ns * slack
    assert all(-1e-6 <= least.gap(cover) < 0.5 for cover in covers.values())
    assert not any(cover.diagnostics for cover in covers.values())


def test_a_search_that_stops_early_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = ExtractorEntry(partial(exact, limits=SolverLimits(seconds=0.0)), needs_all_prices=True)
    monkeypatch.setitem(EXTRACTORS, "exact", hasty)
    graph, view = saturated(softmax_attention())
    (diagnostic,) = extract(view, graph.outputs, ApproximatePricer(), extractor="exact").diagnostics
    assert diagnostic.kind is Kind.RESOURCE_EXCEEDED
    assert diagnostic.severity is Severity.WARNING
    assert diagnostic.details["proven_ns"] <= diagnostic.details["cost_ns"]


def test_several_outputs_one_of_them_an_input_one_inside_another() -> None:
    t = Tiny()
    x, y = t.input("x", 4, 5), t.input("y", 4, 5)
    inner = t.op("ADD", x, y)
    outer = t.op("MUL", inner, inner)
    graph = t.graph(outer, x, inner, inner)
    (kernel,) = covered(graph).kernels
    assert len(kernel.writes) == 2
    assert len(extract(saturated(graph)[1], graph.outputs, ApproximatePricer(), joining=False).kernels) == 2


def test_constants_run_once_and_cost_nothing() -> None:
    t = Tiny()
    x, w = t.input("x", 8, 16), t.input("w", 16)
    scale = t.op("RSQRT", t.op("ADD", t.op("MUL", w, w), 1e-3))
    y = t.op("MUL", x, t.along(scale, 1, (8, 16)))
    cover = covered(t.graph(y), constants=("w",))
    folded, run = sorted(cover.kernels, key=lambda kernel: kernel.price is not None)
    assert folded.price is None
    assert folded.time_ns == 0
    assert folded.region.outputs[0].memref.shape == (16,), "not the broadcast one: its readers pay for its bytes"
    assert [buffer.constant for buffer in run.region.inputs] == [False, True]


def test_a_program_of_constants_alone() -> None:
    t = Tiny()
    cover = covered(t.graph(t.op("EXP", t.input("w", 3))), constants=("w",))
    assert [kernel.price for kernel in cover.kernels] == [None]


def test_repeated_blocks_are_priced_once_and_share_their_region() -> None:
    t = Tiny()
    x = t.input("x", 8, 8)
    for layer in range(6):
        x = t.op("RELU", t.linear(x, f"l{layer}", 8))
    graph, view = saturated(t.graph(x))
    pricer = ApproximatePricer()
    cover = extract(view, graph.outputs, pricer)
    assert len(cover.kernels) == 6
    assert len({id(kernel.region) for kernel in cover.kernels}) == 1
    assert pricer.calls == cover.priced <= 9, "six kernels alone and joined, and a copy"
    check(cover, view, graph, random_inputs(graph, np.random.default_rng(0)))


def test_what_the_pricer_refuses_is_done_another_way() -> None:
    def no_epilogue(region: Region) -> str:
        kinds = [let.op.kind for let in region.body]
        return "one op only" if len(kinds) > 1 else ""

    graph, view = saturated(graphs.gemm_bias_relu())
    cover = extract(view, graph.outputs, ApproximatePricer(refuse=no_epilogue))
    assert all(len(kernel.region.body) == 1 for kernel in cover.kernels)
    assert len(cover.kernels) > 1
    refused = {rival.reason for kernel in cover.kernels for rival in kernel.selection.rivals if rival.refusal}
    assert refused == {"one op only"}
    check(cover, view, graph, random_inputs(graph, np.random.default_rng(0)))


def test_without_rules_the_program_runs_as_written() -> None:
    graph, view = saturated(residual_diamond(), rules=())
    cover = extract(view, graph.outputs, ApproximatePricer())
    assert len(cover.kernels) == sum(node.uop != "INPUT" for node in graph.nodes)
    check(cover, view, graph, random_inputs(graph, np.random.default_rng(0)))


def test_when_nothing_is_legal_it_says_where_and_why() -> None:
    graph, view = saturated(graphs.gemm_bias_relu())
    with pytest.raises(EqsatError, match="no such machine") as caught:
        extract(view, graph.outputs, ApproximatePricer(refuse=lambda region: "no such machine"))
    assert caught.value.kind is Kind.UNSUPPORTED_OP


def test_an_unknown_extractor_is_a_diagnostic() -> None:
    with pytest.raises(EqsatError, match="pareto"):
        check_options(None, "rounding", "magic", "roofline", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "kernels", "regions"),
    [(graphs.resnet50, 60, 50), (lambda: graphs.encoder(4, 32, 64, 4), 15 * 4, 40)],
)
def test_models_of_real_size(build: Callable[[], Graph], kernels: int, regions: int) -> None:
    graph, view = saturated(build())
    constants = tuple(tensor for tensor in graph.inputs if tensor != "x")
    cover = extract(view, graph.outputs, ApproximatePricer(), constants=constants)
    running = [kernel for kernel in cover.kernels if kernel.price]
    assert len(running) <= kernels
    assert len({id(kernel.region) for kernel in running}) <= regions
    assert cover.priced <= 250, "what is compared is priced too, once per distinct region"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_random_covers_compute_the_same(case: str) -> None:
    graph, view = saturated_case(case)
    inputs = random_inputs(graph, np.random.default_rng(1))
    counts = set()
    for cover in random_covers(view, graph.outputs, ApproximatePricer(), map(random.Random, range(12))):
        check(cover, view, graph, inputs)
        counts.add(tuple(kernel.region.name for kernel in cover.kernels))
    assert len(counts) > 1, "every cover was the same"


@pytest.mark.parametrize(("seed", "size"), [*((seed, 12) for seed in range(40)), (1056, 16), (1139, 16)])
def test_random_graphs(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, size)
    constants = tuple(list(graph.inputs)[:1]) if seed % 3 == 0 else ()
    inputs = random_inputs(graph, rng)
    graph, view = saturated(graph)
    pricer = ApproximatePricer()
    check(extract(view, graph.outputs, pricer, constants=constants), view, graph, inputs, constants)
    for cover in random_covers(view, graph.outputs, pricer, map(random.Random, range(3)), constants=constants):
        check(cover, view, graph, inputs, constants)


@pytest.mark.slow
def test_the_cover_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from eqsat.extraction.extract import extract\n"
        "from tests.support.stages.approximate import *; from tests.support.programs import graphs\n"
        "graph, view = saturated(graphs.attention(8, 8, 2))\n"
        "for name in ('pareto', 'windowed', 'exact'):\n"
        "    cover = extract(view, graph.outputs, ApproximatePricer(), extractor=name)\n"
        "    print(assemble(cover, view, graph).module)"
    )
    results = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(results) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_no_cover_is_dearer_than_that_of_ordinary_fusion(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 14)
    constants = tuple(list(graph.inputs)[:1]) if seed % 2 else ()
    ordinary, best = (
        extract(view, graph.outputs, ApproximatePricer(), constants=constants)
        for view in (saturate(graph, select(rules), constants=constants)[0] for rules in (ORDINARY, None))
    )
    assert best.time_ns <= ordinary.time_ns * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ordinary_fusion_competes_with_an_extractor_that_goes_astray(case: str) -> None:
    graph, view = saturated(CASES[case][0]())
    rng, met = random.Random(0), [False]

    def astray(problem: Problem) -> Covering | None:
        """The best cover of a part of the candidates that ordinary fusion makes alone, any of others."""
        ordinary = candidates.problem(lambda candidate: candidate.ordinary).problem
        met[0] |= (is_ordinary := {*ordinary.columns}.issuperset(problem.columns))
        return pareto(problem) if is_ordinary else shuffle(problem, rng)

    candidates = Candidates(view, graph.outputs, ApproximatePricer())
    price_all(candidates)
    search = CoverSearch(candidates, astray)
    best_ns = search.total_ns(search.best()[0])
    problem = candidates.problem(lambda candidate: candidate.ordinary).problem
    least = pareto(problem)
    assert met[0]
    assert least is not None
    assert best_ns <= problem.cost_of(least.columns) * (1 + 1e-9)


def test_known_prices_do_not_confine_the_search_to_covers_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels that each sum anew are priced; the kernel that stores the sum for both is not."""
    t = Tiny()
    total = t.op("REDUCE", t.input("x", 6, 8), op="SUM", axes=[1], dtype="fp32")
    graph, view = saturated(t.graph(t.op("RELU", total), t.op("TANH", total)))
    candidates = Candidates(view, graph.outputs, ApproximatePricer())
    candidates.demand_roots()
    candidates.prices.learn(candidate for candidate in candidates.all() if not candidate.reads)
    for candidate in candidates.by_buffer[view.tiny[total]]:
        candidate.priced = None
    monkeypatch.setattr(cover_search, "ROUNDS", 0)
    cover = CoverSearch(candidates, pareto).cover_with_known_prices()
    assert find_dispute(map(candidates.marks, cover)) is None


@first_few(1, "name", ["squeezenet", "shufflenet", "resnet50"])
def test_light_models_are_no_dearer_than_by_ordinary_fusion(name: str) -> None:
    pytest.importorskip("onnx")
    from bench.optimizing import light_program, sample_optimization

    best, ordinary = (
        sample_optimization(lambda: light_program(name), check_options(rules, "rounding", "pareto", "roofline", None))
        for rules in (None, ORDINARY)
    )
    assert best["predicted us"] <= ordinary["predicted us"]
