"""Covers: as few and as cheap kernels as there should be, and always the same numbers."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eqsat.cover import EXTRACTORS, Column, Problem, pareto, resolve, shuffled, tree
from eqsat.extract import Cover, extract, random_cover
from ir.diagnostics import EqsatError, Kind
from ir.region import Region
from ir.tiny import Graph
from tests.support import graphs
from tests.support.approximate import ApproximatePricer, check, saturated
from tests.support.graphs import Tiny
from tests.support.strategies import random_graph, random_inputs


def covered(graph: Graph, constants: tuple[str, ...] = (), extractor: str = "pareto") -> Cover:
    """The cover of a graph, played and compared."""
    bound, view = saturated(graph)
    cover = extract(view, bound.outputs, ApproximatePricer(), constants=constants, extractor=extractor)
    check(cover, view, bound, random_inputs(bound, np.random.default_rng(0)), constants)
    return cover


def softmax_attention() -> Graph:
    return graphs.attention(length=16, width=16, heads=2)


def residual_diamond() -> Graph:
    t = Tiny()
    x = t.input("x", 6, 8)
    a = t.op("RELU", t.linear(x, "a", 8))
    return t.graph(t.op("RELU", t.op("ADD", a, t.linear(a, "b", 8))))


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


@pytest.mark.parametrize("case", CASES)
def test_kernels(case: str) -> None:
    build, most = CASES[case]
    cover = covered(build())
    assert len(cover.kernels) <= most, [kernel.region.name for kernel in cover.kernels]


@pytest.mark.parametrize("extractor", sorted(EXTRACTORS))
@pytest.mark.parametrize("case", CASES)
def test_every_extractor_computes_the_same(case: str, extractor: str) -> None:
    cover = covered(CASES[case][0](), extractor=extractor)
    best = covered(CASES[case][0]())
    assert best.time_ns <= cover.time_ns * 1.0001


def test_several_outputs_one_of_them_an_input_one_inside_another() -> None:
    t = Tiny()
    x, y = t.input("x", 4, 5), t.input("y", 4, 5)
    inner = t.op("ADD", x, y)
    outer = t.op("MUL", inner, inner)
    cover = covered(t.graph(outer, x, inner, inner))
    assert len(cover.kernels) == 2


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
    assert [each.constant for each in run.region.inputs] == [False, True]


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
    assert pricer.calls == cover.priced <= 8
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
    graph, view = saturated(graphs.gemm_bias_relu())
    with pytest.raises(EqsatError, match="pareto"):
        extract(view, graph.outputs, ApproximatePricer(), extractor="magic")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "kernels", "regions"),
    [(graphs.resnet50, 60, 50), (lambda: graphs.encoder(12, 32, 64, 4), 15 * 12, 40)],
)
def test_models_of_real_size(build: Callable[[], Graph], kernels: int, regions: int) -> None:
    graph, view = saturated(build())
    constants = tuple(tensor for tensor in graph.inputs if tensor != "x")
    cover = extract(view, graph.outputs, ApproximatePricer(), constants=constants)
    running = [kernel for kernel in cover.kernels if kernel.price]
    assert len(running) <= kernels
    assert len({id(kernel.region) for kernel in running}) <= regions
    assert cover.priced <= 150, "what is compared is priced too, once per distinct region"


@pytest.mark.parametrize("case", CASES)
def test_random_covers_compute_the_same(case: str) -> None:
    graph, view = saturated(CASES[case][0]())
    inputs = random_inputs(graph, np.random.default_rng(1))
    counts = set()
    for seed in range(12):
        cover = random_cover(view, graph.outputs, ApproximatePricer(), random.Random(seed))
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
    for each in range(3):
        cover = random_cover(view, graph.outputs, pricer, random.Random(each), constants=constants)
        check(cover, view, graph, inputs, constants)


def test_the_cover_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from tests.support.approximate import *; from tests.support import graphs; from eqsat.extract import extract\n"
        "graph, view = saturated(graphs.attention(8, 8, 2))\n"
        "print(assemble(extract(view, graph.outputs, ApproximatePricer()), view, graph).module)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


# --- the covering problem alone -------------------------------------------------------------------


def brute_force(problem: Problem) -> float:
    """The least cost over all sets of columns."""
    best = float("inf")
    for mask in range(1 << len(problem.columns)):
        chosen = [index for index in range(len(problem.columns)) if mask >> index & 1]
        found = resolve(problem, chosen)
        if found is not None:
            best = min(best, sum(problem.columns[index].cost for index in found))
    return best


def random_problem(rng: random.Random, buffers: int = 5) -> Problem:
    columns = []
    for buffer in range(buffers):
        for _ in range(rng.randint(1, 3)):
            others = rng.sample(range(buffers), rng.randint(0, min(2, buffers - 1)))
            columns.append(Column(buffer, tuple(each for each in others if each != buffer), rng.uniform(1, 9)))
    return Problem(tuple(columns[:11]), (0, 1))


@pytest.mark.parametrize("seed", range(60))
def test_pareto_finds_the_optimum_of_small_problems(seed: int) -> None:
    problem = random_problem(random.Random(seed))
    best = brute_force(problem)
    found = pareto(problem, sets=64)
    if found is None:
        assert best == float("inf")
    else:
        assert sum(problem.columns[index].cost for index in found) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(60))
def test_every_extractor_gives_an_order_that_runs(seed: int) -> None:
    problem = random_problem(random.Random(seed), buffers=7)
    for extractor in (*EXTRACTORS.values(), lambda each: shuffled(each, random.Random(seed))):
        chosen = extractor(problem)
        assert (chosen is None) == (tree(problem) is None)
        done: set[int] = set()
        for index in chosen or ():
            column = problem.columns[index]
            assert set(column.reads) <= done
            assert column.writes not in done
            done.add(column.writes)
        assert chosen is None or set(problem.roots) <= done


def test_a_shared_kernel_is_paid_once() -> None:
    columns = (
        Column(0, (2,), 1.0),
        Column(1, (2,), 1.0),
        Column(0, (), 3.0),
        Column(1, (), 3.0),
        Column(2, (), 3.5),
    )
    problem = Problem(columns, (0, 1))
    assert sorted(pareto(problem) or ()) == [0, 1, 4]
    assert sorted(tree(problem) or ()) == [2, 3]
