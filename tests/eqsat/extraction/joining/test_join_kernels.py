"""Kernels of several outputs: what is joined, what is not, and that it computes the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

import eqsat
from codegen.plan.cpu.candidates import candidates
from codegen.poly.analyse import analyse
from eqsat import nn
from eqsat.assembly.assemble import assemble
from eqsat.cost.pricing import PlanPricer
from eqsat.extraction.candidates import Candidates
from eqsat.extraction.cover import Cover, assert_acyclic
from eqsat.extraction.covering.cover_search import CoverSearch
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.extract import extract
from eqsat.extraction.joining.join_kernels import join_kernels
from eqsat.extraction.joining.joint_kernels import JointKernels
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from eqsat.tensor import input as input_
from ir.module.module_verify import verify
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from tests.support.damage.odd_values import odd_inputs
from tests.support.fuzz.batch import merged, merged_inputs, parted
from tests.support.oracles.module_playback import play_module
from tests.support.stages.approximate import CPU, ApproximatePricer
from tests.support.stages.path import best, compiled, complaint, covers, pricer, saturated
from tests.support.stages.random_covers import random_covers


def graph_of(*results: Tensor) -> Graph:
    document, constants = tensor_to_tiny(list(results))
    assert not constants
    return load(document)[0]


def residual_norm(rows: int = 16, width: int = 48) -> Graph:
    """u = x + y leaves the kernel that normalises u."""
    x, y, w, b = (input_(name, shape) for name, shape in zip("xywb", [(rows, width)] * 2 + [(width,)] * 2, strict=True))
    return graph_of(nn.layer_norm(x + y, w, b), x + y)


def norm_with_statistics(rows: int = 64, width: int = 256) -> Graph:
    x, w, b = input_("x", (rows, width)), input_("w", (width,)), input_("b", (width,))
    mean = x.mean(1, keepdims=True)
    rstd = (((x - mean) * (x - mean)).mean(1, keepdims=True) + 1e-5).rsqrt()
    return graph_of((x - mean) * rstd * w + b, mean, rstd)


def before_and_after_relu(m: int = 9, n: int = 20, k: int = 7) -> Graph:
    product = input_("a", (m, k)) @ input_("b", (k, n))
    return graph_of(product, product.relu())


def siblings(rows: int = 5, width: int = 33) -> Graph:
    x = input_("x", (rows, width))
    return graph_of(x.tanh(), x.sigmoid())


def two_reductions(rows: int = 6, width: int = 40) -> Graph:
    x = input_("x", (rows, width))
    return graph_of(x.sum(1), x.max(axis=1))


def turned_sibling(rows: int = 5, width: int = 7) -> Graph:
    x = input_("x", (rows, width))
    return graph_of(x.exp(), x.relu().permute(1, 0))


def cell(batch: int = 3, width: int = 20) -> Graph:
    """What follows the products of an LSTM's gates: the state, and the output that reads it."""
    gates, c = input_("gates", (4, batch, width)), input_("c", (batch, width))
    i, f, g, o = (gates[k] for k in range(4))
    state = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return graph_of(o.sigmoid() * state.tanh(), state)


def moments_of_all(size: int = 30) -> Graph:
    x = input_("x", (size,))
    mean = x.mean(0)
    return graph_of(mean, ((x - mean) * (x - mean)).mean(0))


ONE_KERNEL = {
    function.__name__: function
    for function in (
        *(residual_norm, norm_with_statistics, before_and_after_relu),
        *(siblings, two_reductions, cell),
    )
}
EVERY = {**ONE_KERNEL, "turned_sibling": turned_sibling, "moments_of_all": moments_of_all}
SIZES = ((3, 13), (1, 1), (0, 4), (4, 0))


def running(cover: Cover) -> list[tuple[str, ...]]:
    return [tuple(cover.names[write] for write in kernel.writes) for kernel in cover.kernels if kernel.price]


def inputs_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    types = {name: graph.types[node.id] for name, node in graph.inputs.items()}
    return odd_inputs(types, np.random.default_rng(seed))


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel_writes_all(name: str) -> None:
    graph, prices = ONE_KERNEL[name](), PlanPricer(CPU, analyse, candidates)
    cover = extract(saturated(graph), graph.outputs, prices)
    (written,) = running(cover)
    assert len(written) == len(graph.outputs)
    assert cover.time_ns < extract(saturated(graph), graph.outputs, prices, joining=False).time_ns


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_covers_play_back_alike_whatever_is_joined(name: str) -> None:
    """With rows and columns of odd sizes, of one point and of none."""
    for sizes in SIZES:
        graph = EVERY[name](*(sizes if name != "moments_of_all" else sizes[1:]))
        view = saturated(graph)
        for seed, (module, _) in enumerate(covers(graph, view, range(2), ApproximatePricer())):
            inputs = inputs_of(graph, seed)
            assert not complaint(graph, inputs, play_module(module, inputs)), f"{sizes}, cover {seed}\n{module}"


def test_random_covers_join_across_shapes() -> None:
    graph = norm_with_statistics(4, 6)
    view = saturated(graph)
    places = set()
    for cover in random_covers(view, graph.outputs, ApproximatePricer(), map(random.Random, range(12))):
        assert_acyclic(cover.kernels)
        verify(assemble(cover, view, graph).module)
        places |= {result.at is None for kernel in cover.kernels for result in kernel.region.yields}
    assert places == {True, False}


@pytest.mark.slow
def test_joint_kernels_run() -> None:
    """Compiled with this machine's prices, NaN and infinities among the inputs."""
    graphs = [build() for build in EVERY.values()]
    whole = merged(graphs)
    run = compiled(*best(whole, saturated(whole)))
    for seed in range(2):
        inputs = [inputs_of(graph, seed + 10 * number) for number, graph in enumerate(graphs)]
        for graph, given, got in zip(graphs, inputs, parted(graphs, run(merged_inputs(inputs))), strict=True):
            assert not complaint(graph, given, got), graph


def test_a_path_between_two_keeps_them_apart() -> None:
    """The second reads x as the first does, but needs what a product makes of the first's result."""
    x, w = input_("x", (32, 32)), input_("w", (32, 32))
    first = x.tanh()
    graph = graph_of(first, x + (first @ w).relu().exp())
    cover = extract(saturated(graph), graph.outputs, pricer())
    assert_acyclic(cover.kernels)
    inputs = inputs_of(graph, 1)
    module, _ = assemble(cover, saturated(graph), graph)
    assert not complaint(graph, inputs, play_module(module, inputs))


def test_a_joint_kernel_is_dearer_than_none() -> None:
    """Two products of one operand are two kernels: their accumulators do not fit in one."""
    x = input_("x", (32, 32))
    graph = graph_of(x @ input_("a", (32, 32)), x @ input_("b", (32, 32)))
    program = eqsat.optimize_and_compile(graph, threads=1)
    assert [len(kernel.writes) for kernel in program.kernels] == [1, 1]
    answer = program.why_not(0, 1)
    assert answer.kind == "refused"
    assert "accumulators of both" in answer.reasons[0]


@pytest.mark.slow
def test_repeated_blocks_are_priced_once() -> None:
    def chain(blocks: int) -> Graph:
        y = input_("x", (8, 24))
        for _ in range(blocks):
            y = (
                (y.tanh() * y.sum(1, keepdims=True) @ input_(f"w{_}", (24, 24))).relu()
                if _ % 2
                else y + y.exp().max(1, keepdims=True)
            )
        return graph_of(y, y.sigmoid())

    counts = []
    for blocks in (8, 16, 24):
        graph = chain(blocks)
        asked = ApproximatePricer()
        extract(saturated(graph), graph.outputs, asked)
        counts.append(asked.calls)
    assert counts[2] - counts[1] <= (counts[1] - counts[0]) / 2, counts


@pytest.mark.slow
def test_what_was_joined_is_told() -> None:
    program = eqsat.optimize_and_compile(residual_norm(), threads=1, verify=True)
    (kernel,) = program.kernels
    first, second = kernel.writes
    assert program.chain(second).output == second
    assert [chain["output"] for chain in program.explained(0)["chains"]] == [first, second]
    parts = kernel.selection.parts
    assert sorted(name for part in parts for name in part.writes) == sorted(kernel.writes)
    assert sum(part.time_ns for part in parts) > kernel.estimated_ns
    said = program.explain()
    assert "less than apart" in said
    assert f"{first}, {second} = {kernel.name}(" in said
    assert kernel.name.count("_and_") == 1


def test_covers_share_their_joint_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second cover of the same kernels is joined alike, and asks for no price."""
    graph = residual_norm()
    candidates = Candidates(saturated(graph), graph.outputs, pricer())
    cover = candidates.materialize(CoverSearch(candidates, pareto).best()[0])
    shared = JointKernels(candidates)
    first = join_kernels(cover, shared)
    monkeypatch.setattr(candidates.prices, "of", lambda *_: pytest.fail("a joint kernel is priced again"))
    assert join_kernels(cover, shared) == first
    assert len(first.kernels) < len(cover.kernels)
