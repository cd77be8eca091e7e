"""Orders of axes of what lies between kernels: whatever they are the program computes the same; what is chosen gains,
is the least of all choices, and the diagnostics say so."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile
from eqsat.assembly.assemble import AssembledModule, assemble
from eqsat.egraph.view import EGraphView
from eqsat.extraction.cover import Cover
from eqsat.extraction.extract import extract
from eqsat.extraction.layouts.choose_layouts import free_buffers, store_in_orders
from eqsat.extraction.layouts.min_sum import Cost, least
from eqsat.extraction.layouts.permuted_kernels import PermutedKernels
from eqsat.extraction.layouts.times import Combination, Times
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor, concatenate, constant
from eqsat.tensor import input as input_
from ir.diagnostics import Kind
from ir.module.dump import dump_module, load_module
from ir.module.module_verify import verify
from ir.pricer import Pricer
from ir.region.order import Order
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from tests.eqsat.extraction.test_covers import MODELS, inputs_of, model
from tests.support.fuzz.strategies import random_graph
from tests.support.oracles.module_playback import play_module
from tests.support.programs.usual_cpu import usual_cpu
from tests.support.sampling import first_few
from tests.support.stages.approximate import ApproximatePricer
from tests.support.stages.path import compiled, complaint, pricer, saturated
from tests.support.stages.random_covers import random_covers

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


DEPTHWISE = (weights(40, 24, 1, 1), weights(40, 1, 3, 3), weights(16, 40, 1, 1))


def depthwise() -> Tensor:
    """An inverted bottleneck: its strided 3×3 runs along channels if these are neighbours."""
    expand, window, project = map(constant, DEPTHWISE)
    y = nn.relu(nn.conv2d(input_("x", (1, 24, 29, 27)), expand))
    y = nn.relu(nn.conv2d(y, window, padding=1, stride=2, groups=40))
    return nn.conv2d(y, project)


def graph_of(*results: Tensor) -> Graph:
    document, constants = tensor_to_tiny(list(results))
    assert not constants
    return load(document)[0]


# --- any orders ---


def shuffled_orders(cover: Cover, chosen: Pricer, rng: random.Random) -> Cover:
    """The cover with its buffers in random orders, as far as its kernels are legal so."""
    permuted, orders = PermutedKernels(chosen, packs=True), dict[int, Order]()
    for buffer, shape in free_buffers(cover).items():
        tried = {**orders, buffer: tuple(rng.sample(range(len(shape)), len(shape)))}
        if all(not kernel.price or permuted.of(kernel, tried).price for kernel in cover.kernels):
            orders = tried
    return store_in_orders(cover, orders, permuted)


def random_assemblies(graph: Graph, view: EGraphView, count: int, chosen: Pricer) -> Iterator[AssembledModule]:
    """Random covers whose buffers are in random orders."""
    rngs = [random.Random(seed) for seed in range(count)]
    for rng, cover in zip(rngs, random_covers(view, graph.outputs, chosen, rngs), strict=True):
        assembly = assemble(shuffled_orders(cover, chosen, rng), view, graph)
        verify(assembly.module)
        yield assembly


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_random_orders_play_back_alike(name: str) -> None:
    graph = model(name)
    view = saturated(graph)
    for seed, (module, _) in enumerate(random_assemblies(graph, view, 4, ApproximatePricer())):
        inputs = inputs_of(graph, seed)
        assert not complaint(graph, inputs, play_module(module, inputs)), f"cover {seed}\n{module}"


@first_few(16, "number", range(48))
def test_random_orders_of_random_graphs_play_back_alike(number: int) -> None:
    graph = random_graph(np.random.default_rng((number, 11)), 14)
    view = saturated(graph)
    for seed, (module, _) in enumerate(random_assemblies(graph, view, 4, ApproximatePricer())):
        inputs = inputs_of(graph, seed)
        assert not complaint(graph, inputs, play_module(module, inputs)), f"cover {seed}\n{module}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual_block", "layer_norm", "pooling"])
def test_random_orders_compute_the_same_in_c(name: str) -> None:
    graph = model(name)
    view = saturated(graph)
    tried = random_assemblies(graph, view, 200, pricer())
    module, prices = next(case for case in tried if sum(slot.order is not None for slot in case.module.slots) > 1)
    inputs = inputs_of(graph, 1)
    assert not complaint(graph, inputs, compiled(module, prices)(inputs))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 5), (3, 1, 1), (0, 4, 3), (1, 1, 1)])
def test_axes_of_one_element_or_none(shape: tuple[int, ...]) -> None:
    x = input_("x", shape)
    graph = graph_of(nn.softmax(x.permute(2, 0, 1) * 2.0, axis=0).sum(0), (x * 2.0).permute(1, 2, 0).cumsum(0))
    view = saturated(graph)
    for seed, (module, _) in enumerate(random_assemblies(graph, view, 3, ApproximatePricer())):
        inputs = inputs_of(graph, seed)
        assert not complaint(graph, inputs, play_module(module, inputs))


# --- the chosen ones ---


@pytest.mark.slow
def test_a_strided_depthwise_convolution_runs_along_channels() -> None:
    program = optimize_and_compile(depthwise(), verify=True)
    plain = optimize_and_compile(depthwise(), cost_model="-relayout")
    slots = program.dump("module", as_json=True)["slots"]
    between = [slot for slot in slots if slot["role"] == "arena"]
    assert program.cost < 0.9 * plain.cost
    assert all(slot["order"] == [0, 2, 3, 1] for slot in between)
    assert [slot["memref"]["shape"] for slot in between[:2]] == [[1, 29, 27, 40], [1, 15, 14, 40]]
    assert not any("order" in slot for slot in slots if slot["role"] in ("input", "output"))
    assert not any("order" in slot for slot in plain.dump("module", as_json=True)["slots"])
    x = np.random.default_rng(1).standard_normal((1, 24, 29, 27), dtype=np.float32)
    np.testing.assert_allclose(program(x), plain(x), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_constant_is_copied_in_the_order_in_which_it_is_read() -> None:
    slots = optimize_and_compile(depthwise()).dump("module", as_json=True)["slots"]
    (window,) = (slot for slot in slots if slot["role"] == "constant" and "order" in slot)
    assert window["memref"]["shape"] == [3, 1, 3, 40]


@pytest.mark.slow
def test_an_order_is_printed_and_read_back() -> None:
    module = load_module(optimize_and_compile(depthwise()).dump("module", as_json=True))
    assert "fp32[1,29,27,40] as i0,i2,i3,i1" in str(module)
    assert load_module(dump_module(module)) == module


def test_what_callers_see_is_row_major() -> None:
    """Nothing lies between, and the output is written across the input."""
    graph = graph_of(input_("a", (9, 7)).permute(1, 0).exp())
    assert not extract(saturated(graph), graph.outputs, pricer()).orders


_CHOICE = """
from tests.eqsat.extraction.layouts.test_layouts import depthwise
from eqsat import optimize_and_compile
print(optimize_and_compile(depthwise(), cache=False).dump("module", as_json=True))
"""


@pytest.mark.exhaustive
def test_the_choice_does_not_depend_on_hashes() -> None:
    chosen = {
        subprocess.run(
            [sys.executable, "-c", _CHOICE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(chosen) == 1


# --- the least sum ---


def random_costs(rng: np.random.Generator, counts: list[int]) -> list[Cost]:
    costs = []
    for _ in range(len(counts) + 2):
        several = sorted(
            rng.choice(len(counts), size=min(len(counts), int(rng.integers(0, 4))), replace=False).tolist()
        )
        table = rng.integers(0, 9, size=[counts[variable] for variable in several]).astype(np.float64)
        table[rng.random(table.shape) < 0.1] = np.inf
        costs.append(Cost(tuple(several), table))
    return costs


def total(costs: list[Cost], chosen: tuple[int, ...]) -> float:
    return float(sum(cost.table[tuple(chosen[variable] for variable in cost.variables)] for cost in costs))


@pytest.mark.parametrize("seed", range(40))
def test_the_sum_is_the_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=int(rng.integers(0, 7))).tolist()
    costs = random_costs(rng, counts)
    result = least(counts, costs)
    every = (total(costs, chosen) for chosen in itertools.product(*map(range, counts)))
    assert total(costs, result.chosen) == min(every)
    assert not result.fixed


def test_where_tables_would_be_too_large_variables_are_fixed() -> None:
    counts = [3] * 5
    costs = [Cost(pair, np.array([[0.0, 1, 1], [1, 2, 0], [1, 0, 2]])) for pair in itertools.combinations(range(5), 2)]
    result = least(counts, costs, most=30)
    assert result.fixed
    assert all(result.chosen[variable] == 0 for variable in result.fixed)
    assert not least(counts, costs).fixed


def _best(times: Times) -> Combination:
    """The labels of the least time that is believed, priced and believed again until it is known."""
    while True:
        chosen = tuple(map(int, np.unravel_index(times.table.argmin(), times.table.shape)))
        if not times.learn(chosen):
            return chosen


def test_few_combinations_are_priced_and_none_is_chosen_unpriced() -> None:
    """Five operands whose orders cost nothing but where they differ from that of the result."""
    priced: list[Combination] = []

    def time(labels: Combination) -> tuple[float, float]:
        priced.append(labels)
        *reads, written = labels
        return (100.0 + 10 * sum(read != written for read in reads) - 5 * written, 94.0)

    times = Times([2] * 6, time)
    assert priced == [(0,) * 6, (1,) * 6]
    assert _best(times) == (1,) * 6
    assert len(priced) == len(set(priced)) == 8, "of 64"
    assert times.learn((0, 1, 0, 1, 0, 1)), "a guess"
    while times.learn((0, 1, 0, 1, 0, 1)):
        pass
    assert times.only_known()[0, 1, 0, 1, 0, 1] == times.table[0, 1, 0, 1, 0, 1] == 125.0


def test_differences_are_added_up() -> None:
    saved = np.array([3.0, 5.0, -2.0, 7.0, 1.0])
    times = Times([2] * 5, lambda labels: (100.0 - float(saved @ labels), 80.0))
    for place in range(5):
        assert times.learn(tuple(int(number == place) for number in range(5)))
    assert times.table[1, 1, 0, 0, 0] == pytest.approx(92.0)
    assert not np.isfinite(times.only_known()[1, 1, 0, 0, 0])


def test_a_gain_that_orders_may_bring_is_not_missed() -> None:
    """No order of all is better than another; one of the second operand alone is."""
    times = Times([2] * 3, lambda labels: (90.0 if labels == (0, 1, 0) else 100.0, 85.0))
    assert _best(times) == (0, 1, 0)


def test_what_orders_cannot_make_faster_is_priced_no_further() -> None:
    times = Times([2] * 3, lambda labels: (100.0 + sum(labels) % 3, 100.0))
    assert _best(times) == (0, 0, 0)
    assert np.isfinite(times.only_known()).sum() == 2


def test_a_form_that_does_not_exist_is_not_chosen() -> None:
    def time(labels: Combination) -> tuple[float, float]:
        return (math.inf, math.inf) if sum(labels) in (1, 3) else (90.0 + sum(labels), 50.0)

    times = Times([2] * 3, time)
    assert _best(times) == (0, 0, 0)
    assert times.table[1, 0, 0] == math.inf


@pytest.mark.parametrize("counts", [[], [3], [1, 2], [4, 2, 3]])
def test_what_is_known_is_exact_and_the_rest_is_finite(counts: list[int]) -> None:
    exact = np.random.default_rng(0).uniform(1, 2, counts)
    times = Times(counts, lambda labels: (float(exact[labels]), 1.0))
    for labels in itertools.product(*map(range, counts)):
        known = np.isfinite(times.only_known())
        assert np.array_equal(times.table[known], exact[known])
        assert np.isfinite(times.table).all()
        while times.learn(labels):
            pass
    assert np.array_equal(times.table, exact)


@pytest.mark.slow
def test_a_kernel_that_reads_seventy_buffers_leaves_some_row_major() -> None:
    """NumPy's arrays have at most 64 axes, and a table has an axis per buffer."""
    w = input_("w", (8, 7))
    xs = [input_(f"x{place}", (6, 8)) for place in range(70)]
    program = optimize_and_compile(concatenate([x @ w for x in xs], 1), target=usual_cpu(), threads=1)
    (limit,) = program.diagnostics
    assert limit.kind is Kind.RESOURCE_EXCEEDED
    assert 0 < len(limit.details["buffers"]) < 70
    program.verify()
