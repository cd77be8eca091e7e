"""Inlining is bounded: programs that read their producers at many maps saturate, in e-nodes linear in their size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat import nn, tensor
from eqsat.egraph.inlining import decide_inlining
from eqsat.egraph.stop import Stop
from eqsat.model import read_model
from eqsat.options import Budget
from eqsat.tensor import Tensor
from ir.diagnostics import Kind
from ir.tiny.graph import Graph
from ir.tiny.playback import playback
from rules import RULES
from tests.support.fuzz.strategies import random_inputs
from tests.support.oracles.canary import saturate
from tests.support.stages.path import best, compiled, complaint, covers


def stencil(steps: int) -> Tensor:
    """Jacobi steps: each reads its source at four neighbours, beyond the border 0."""
    x = tensor.input("x", (12, 12))
    for _ in range(steps):
        p = x.pad([(1, 1), (1, 1)])
        x = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) * 0.25
    return x


def hadamard(steps: int) -> Tensor:
    """The fast Walsh-Hadamard transform of 2^steps numbers."""
    x: Tensor = tensor.input("x", (2**steps,))
    for step in range(steps):
        pairs = x.reshape(2 ** (steps - step - 1), 2, 2**step)
        a, b = pairs[:, :1], pairs[:, 1:]
        x = tensor.concatenate([a + b, a - b], axis=1).reshape(2**steps)
    return x


def dense_net(layers: int) -> Tensor:
    """Each layer reads all before it, concatenated."""
    x = tensor.input("x", (1, 4, 6, 6))
    for layer in range(layers):
        w = tensor.input(f"w{layer}", (2, x.shape[1], 3, 3))
        x = tensor.concatenate([x, nn.relu(nn.conv2d(x, w, padding=1))], axis=1)
    return x


def turned(steps: int) -> Tensor:
    """Movements whose composed maps have many floors, with an op between."""
    x = tensor.input("x", (4, 6))
    for _ in range(steps):
        x = -x.permute(1, 0).flip(0).reshape(4, 6)
    return x


def graph_of(value: Tensor) -> Graph:
    return read_model(value).bind({}, False).graph


CHAINS = [stencil, hadamard, dense_net, turned]
chains = pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.__name__)


@pytest.mark.slow
@chains
def test_the_egraph_grows_with_the_program(chain: Callable[[int], Tensor]) -> None:
    sizes = {}
    for steps in (6, 12):
        _, stats = saturate(graph_of(chain(steps)), RULES)
        assert all(phase.stop is Stop.SATURATED for phase in stats.phases)
        sizes[steps] = stats.nodes
    assert sizes[12] < 3 * sizes[6]


@pytest.mark.slow
@chains
def test_covers_of_such_programs_are_right(chain: Callable[[int], Tensor]) -> None:
    graph = graph_of(chain(5))
    inputs = random_inputs(graph, np.random.default_rng(1))
    view, _ = saturate(graph, RULES)
    for cover in (best(graph, view), *covers(graph, view, range(3))):
        assert not complaint(graph, inputs, compiled(*cover)(inputs))


def test_what_stands_at_more_maps_than_allowed_is_stored() -> None:
    graph = graph_of(stencil(3))
    everything = {node.id for node in graph.nodes}
    assert set(decide_inlining(graph, copies=1000).inlined) == everything
    few = set(decide_inlining(graph, copies=4).inlined)
    assert few < everything
    _, unbounded = saturate(graph, RULES, budget=Budget(copies=1000))
    _, bounded = saturate(graph, RULES, budget=Budget(copies=4))
    assert bounded.nodes < unbounded.nodes


def test_a_producer_of_one_reader_is_always_inlined() -> None:
    x = tensor.input("x", (5, 7))
    for _ in range(100):
        x = x * 0.5 + 1.0
    graph = graph_of(x.sum(axis=0))
    assert len(decide_inlining(graph, copies=2).inlined) == len(graph.nodes)


@pytest.mark.slow
def test_a_map_of_many_pieces_is_stored_with_a_word() -> None:
    """Movements alone, whose composed map is a shuffle that no short expression says."""
    x = tensor.input("x", (5, 7, 11, 13))
    y = x
    for shape in ((7, 5, 13, 11), (11, 13, 5, 7), (13, 11, 7, 5), (5, 11, 7, 13), (7, 13, 11, 5), (5, 7, 11, 13)) * 3:
        y = y.permute(3, 1, 0, 2).reshape(*shape)
    graph = graph_of(y)
    view, stats = saturate(graph, RULES)
    assert stats.piecewise
    assert {warning.kind for warning in stats.warnings} == {Kind.EXCESSIVE_PIECEWISE}
    inputs = random_inputs(graph, np.random.default_rng(0))
    (wanted,) = playback(graph, inputs)
    (got,) = compiled(*best(graph, view))(inputs)
    assert np.array_equal(got, wanted)
