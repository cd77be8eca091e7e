"""Every legal cover computes the same: random covers of random graphs and of models, under region playback, thousands
of them, and compiled, hundreds. Seeds are fixed; a mismatch names its graph, its cover and the output."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import eqsat
from eqsat import nn
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor, iota
from eqsat.tensor import input as input_
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from tests.support.damage.odd_values import odd_inputs
from tests.support.fuzz.batch import merged, merged_inputs, parted
from tests.support.fuzz.strategies import random_graph
from tests.support.oracles.module_playback import play_module
from tests.support.sampling import every, first_few
from tests.support.stages.approximate import ApproximatePricer
from tests.support.stages.path import compiled, complaint, covered, covers, saturated

PROGRAMS = Path(eqsat.__file__).parent / "programs"
SEED_SIZES: dict[str, dict[str, int]] = {
    "gemm": {"M": 5, "N": 7, "K": 9},
    "conv2d": {
        "N": 2, "H": 6, "W": 5, "G": 2, "Cin": 3, "Cin_total": 6, "Rcout": 2, "Cout": 4, "Kh": 3, "Kw": 3, "pt": 1,
        "pb": 1, "pl": 1, "pr": 1, "Sh": 2, "Sw": 1, "Dh": 1, "Dw": 1, "Oy": 3, "Ox": 5,
    },
    "attention": {"B": 2, "H": 2, "M": 3, "N": 5, "D": 4},
}  # fmt: skip


def _graph(*results: Tensor) -> Graph:
    document, constants = tensor_to_tiny(list(results))
    assert not constants
    return load(document)[0]


def _residual_block() -> Graph:
    x, w = input_("x", (2, 3, 6, 5)), input_("w", (3, 3, 3, 3))
    scale, shift = input_("scale", (3, 1, 1)), input_("shift", (3, 1, 1))
    return _graph(nn.relu(nn.conv2d(x, w, padding=1) * scale + shift + x))


def _causal_attention() -> Graph:
    q, k, v = (input_(name, (2, size, 4)) for name, size in (("q", 3), ("k", 5), ("v", 5)))
    return _graph(nn.attention(q, k, v, causal=True))


def _layer_norm() -> Graph:
    x, weight, bias = input_("x", (4, 6)), input_("weight", (6,)), input_("bias", (6,))
    return _graph(nn.layer_norm(x, weight, bias))


def _pooling() -> Graph:
    x = input_("x", (1, 2, 7, 6))
    return _graph(nn.max_pool2d(x, 3, 2, 1), nn.avg_pool2d(x, 2, count_include_pad=False))


def _gather() -> Graph:
    table, index = input_("table", (7, 3)), input_("index", (4, 3), "i32")
    return _graph((table * 2.0).gather(0, index).relu())


def _running_sum() -> Graph:
    x = input_("x", (3, 5))
    return _graph((x * iota((3, 5), 1, "fp32")).cumsum(1) + 1.0, x.cumsum(0).max(axis=1))


def _several_outputs() -> Graph:
    a, b = input_("a", (3, 4)), input_("b", (4, 5))
    product = a @ b
    return _graph(product, product.relu(), product.sum(0), a)


def _half_precision() -> Graph:
    a, b, bias = input_("a", (5, 6), "fp16"), input_("b", (6, 3), "fp16"), input_("bias", (3,), "fp16")
    return _graph(nn.silu(a @ b + bias))


MODELS = {
    function.__name__.lstrip("_"): function
    for function in (
        _residual_block, _causal_attention, _layer_norm, _pooling, _gather, _running_sum, _several_outputs,
        _half_precision,
    )
}  # fmt: skip


@cache
def model(name: str) -> Graph:
    if name in MODELS:
        return MODELS[name]()
    return load(str(PROGRAMS / f"{name}.json"), dims=SEED_SIZES[name])[0]


def inputs_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    types = {name: graph.types[node.id] for name, node in graph.inputs.items()}
    return odd_inputs(types, np.random.default_rng(seed))


def mismatches(graph: Graph, seeds: range) -> Iterator[str]:
    """What random covers of one graph get wrong under region playback. A kernel that no template fits must mean the
    same as well, so legality is not asked."""
    for seed, (module, _) in zip(seeds, covers(graph, saturated(graph), seeds, ApproximatePricer()), strict=True):
        inputs = inputs_of(graph, seed)
        if wrong := complaint(graph, inputs, play_module(module, inputs)):
            yield f"cover {seed}: {wrong}\n{module}"


@pytest.mark.slow
def test_random_covers_differ() -> None:
    """The covers are not one and the same: some graph has kernels cut at many places."""
    graph = model("attention")
    assert len({module for module, _ in covers(graph, saturated(graph), range(20))}) > 7


@every(2)
@pytest.mark.parametrize("name", [*MODELS, *SEED_SIZES])
def test_covers_of_models_play_back_alike(name: str, step: int) -> None:
    assert not next(mismatches(model(name), range(0, 58, step)), "")


@first_few(1, "part", range(16))
def test_covers_of_random_graphs_play_back_alike(part: int) -> None:
    """16 × 8 graphs, 12 covers of each."""
    for number in range(8 * part, 8 * part + 8):
        graph = random_graph(np.random.default_rng((number, 7)), 14)
        assert not next(mismatches(graph, range(12)), ""), f"random graph ({number}, 7)"


@first_few(1, "seed", range(4))
def test_compiled_covers_compute_the_same(seed: int) -> None:
    """A random cover of 35 programs at once: 24 random graphs, and the models."""
    graphs = [random_graph(np.random.default_rng((seed, number)), 12) for number in range(24)]
    graphs += [model(name) for name in (*MODELS, *SEED_SIZES)]
    whole = merged(graphs)
    run = compiled(*covered(whole, saturated(whole), seed))
    for round_ in range(2):
        inputs = [inputs_of(graph, seed + 100 * round_ + number) for number, graph in enumerate(graphs)]
        for number, got in enumerate(parted(graphs, run(merged_inputs(inputs)))):
            wrong = complaint(graphs[number], inputs[number], got)
            assert not wrong, f"program {number} of batch {seed}: {wrong}\n{graphs[number]}"
