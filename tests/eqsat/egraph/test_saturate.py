"""Saturation: it fuses what it should, it is sound on every class, it stops for a named reason, it is deterministic."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eqsat import tensor
from eqsat.egraph.stop import Stop
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.options import Budget
from ir.term.language import Imm, Load, PBin, Pure, Store
from ir.term.rule import Exactness
from ir.tiny.bind import load
from ir.tiny.graph import Graph
from rules import RULES
from tests.support.fuzz.strategies import random_graph, random_inputs
from tests.support.oracles.canary import saturate, saturate_terms
from tests.support.oracles.egraph_values import describe, fits_one_kernel, node_values
from tests.support.programs import graphs
from tests.support.programs.graphs import Tiny
from tests.support.sampling import first_few


def grouped_conv() -> Graph:
    """Seed 002 §5.2: groups, a reshape between the sum and the bias, fp16 in and out."""
    t = Tiny("fp16")
    x = t.op("PAD", t.input("x", 1, 4, 7, 7), pad=((0, 0), (0, 0), (1, 1), (1, 1)), value=0)
    windows = t.op("POOL", x, kernel=(3, 3), stride=(2, 2))
    x = t.permute(t.expand(t.reshape(windows, 1, 2, 2, 1, 4, 4, 3, 3), 1, 2, 2, 3, 4, 4, 3, 3), 0, 1, 3, 4, 5, 2, 6, 7)
    w = t.expand(t.reshape(t.input("w", 6, 2, 3, 3), 1, 2, 3, 1, 1, 2, 3, 3), *t.shape(x))
    y = t.reshape(t.reduce("SUM", t.op("MUL", x, w), 5, 6, 7), 1, 6, 4, 4)
    bias = t.along(t.cast(t.input("b", 6), "fp32"), 1, (1, 6, 4, 4))
    return t.graph(t.cast(t.op("ADD", y, bias), "fp16"))


def padded_prologue() -> Graph:
    """relu(x·2) is padded and summed by a window: the guard moves through the elementwise ops to the read."""
    t = Tiny()
    x = t.op("RELU", t.op("MUL", t.input("x", 9), 2.0))
    windows = t.op("POOL", t.op("PAD", x, pad=((1, 1),), value=0), kernel=(3,), stride=(2,))
    return t.graph(t.reduce("SUM", windows, 1))


def reduction_with_init() -> Graph:
    t = Tiny("fp16")
    return t.graph(t.op("RELU", t.reduce("SUM", t.input("x", 3, 5), 1, dtype="fp16", init=2)))


ONE_KERNEL = {
    "gemm + bias + relu": graphs.gemm_bias_relu(),
    "gemm, fp16": graphs.gemm_bias_relu(dtype="fp16"),
    "gemm of a column": graphs.gemm_bias_relu(5, 1, 3),
    "gemm over one": graphs.gemm_bias_relu(5, 2, 1),
    "conv 3×3 s2 p1 + bn + relu": graphs.conv_bn_relu(),
    "conv, bf16": graphs.conv_bn_relu(dtype="bf16"),
    "grouped conv": grouped_conv(),
    "padded prologue": padded_prologue(),
    "init": reduction_with_init(),
}


@pytest.mark.parametrize("graph", ONE_KERNEL.values(), ids=ONE_KERNEL.keys())
def test_it_is_one_kernel(graph: Graph) -> None:
    view, stats = saturate(graph, RULES)
    assert fits_one_kernel(view, view.tiny[graph.outputs[0]])
    assert all(phase.stop is Stop.SATURATED for phase in stats.phases)


ROWS = {
    "softmax": lambda t: t.softmax(t.input("x", 3, 4)),
    "layer norm": lambda t: t.layer_norm(t.input("x", 3, 4), "norm"),
    "softmax of layer norm": lambda t: t.softmax(t.layer_norm(t.input("x", 3, 4), "norm")),
    "a broadcast sum": lambda t: t.op("NEG", t.spread(t.reduce("SUM", t.input("x", 3, 4), 1), 1, 4)),
}


@pytest.mark.parametrize("write", ROWS.values(), ids=ROWS.keys())
def test_a_row_is_one_kernel_by_the_rule_of_rows_alone(write: Callable[[Tiny], str]) -> None:
    t = Tiny()
    graph = t.graph(write(t))
    view, _ = saturate(graph, RULES)
    assert fits_one_kernel(view, view.tiny[graph.outputs[0]])
    without, _ = saturate(graph, [rule for rule in RULES if rule.family != "rows"])
    assert not fits_one_kernel(without, without.tiny[graph.outputs[0]])


def test_exactness_forbids() -> None:
    graph = graphs.gemm_bias_relu()
    view, stats = saturate(graph, RULES, Exactness.EXACT)
    assert "sum_of_products" not in stats.matches
    assert all(node.ctor != "Contract" for nodes in view.classes.values() for node in nodes)


@pytest.mark.parametrize("seed", range(40))
def test_every_node_of_a_class_has_its_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 14)
    view, stats = saturate(graph, RULES, Exactness.EXACT)
    assert all(phase.stop is Stop.SATURATED for phase in stats.phases)
    for number, node, value, first in node_values(view, random_inputs(graph, rng, specials=seed % 3 == 0)):
        assert value.dtype == first.dtype, describe(view, number, node)
        assert np.array_equal(value.astype(np.float64), first.astype(np.float64), equal_nan=True), describe(
            view, number, node
        )


def test_what_absorbs_is_not_regrouped_for_ever() -> None:
    """x xor x is 0, and 0·7 is 0: a value that is a part of itself."""
    t = Tiny("i32")
    x = t.input("x", 2, 3)
    zero = t.op("XOR", x, x)
    product = t.op("MUL", zero, 7)
    view, stats = saturate(t.graph(t.op("MUL", product, product), t.op("MUL", product, 3)), RULES)
    assert {phase.stop for phase in stats.phases} == {Stop.SATURATED}
    assert sum(map(len, view.classes.values())) < 60


@first_few(40, "seed", range(1000, 2000))
def test_every_node_of_many_classes_has_its_value(seed: int) -> None:
    test_every_node_of_a_class_has_its_value(seed)


MODELS = {
    **ONE_KERNEL,
    "attention": graphs.attention(),
    "encoder layer": graphs.encoder(1, length=3, width=8, heads=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("graph", MODELS.values(), ids=MODELS.keys())
def test_models_stay_what_they_are(graph: Graph) -> None:
    view, _ = saturate(graph, RULES, Exactness.RANGE)
    inputs = random_inputs(graph, np.random.default_rng(1))
    for number, node, value, first in node_values(view, inputs, wide=True):
        assert value.shape == first.shape, describe(view, number, node)
        assert np.allclose(value, first, rtol=1e-9, atol=1e-9, equal_nan=True), describe(view, number, node)


def test_canary_constants_stay_apart() -> None:
    numbers = {"fp32": ("0.0", "-0.0", "1.0", "inf", "nan"), "i32": ("0", "1", "-1"), "bool": ("true", "false")}
    held = [Imm(element, text, "[2]") for element, texts in numbers.items() for text in texts]
    kernels = [Store(Pure(term), f"{term.field('dtype')}[2]") for term in held]
    for one, kernel in zip(held, list(kernels), strict=True):
        if (element := one.field("dtype")) != "bool":
            for op in ("add", "mul", "max", "sub"):
                value = PBin(op, element, one, Load(kernel, "[2] -> [-i0 + 1]"))
                kernels.append(Store(Pure(value), kernel.field("type")))
    named = [(f"c{k}", kernel) for k, kernel in enumerate(kernels)]
    view, _ = saturate_terms(named, RULES, Exactness.EXACT)
    assert len({view.tiny[f"c{k}"] for k in range(len(held))}) == len(held)
    saturate_terms(named, RULES, Exactness.RANGE)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_softmax_of_one_element_saturates(dtype: str) -> None:
    """The maximum of one element is that element, so that a value on chip is a view of itself."""
    t = Tiny(dtype)
    score = t.matmul(t.input("q", 5, 2), t.input("k", 2, 1))
    result = t.matmul(t.softmax(score), t.input("v", 1, 1))
    alone = t.spread(t.cast(t.reduce("MAX", t.input("x", 5, 1), 1), dtype), 1, 1)
    _, stats = saturate(t.graph(result, alone), RULES)
    assert {phase.stop for phase in stats.phases} == {Stop.SATURATED}
    assert stats.nodes < 1000


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_statistics_of_statistics_saturate(dtype: str) -> None:
    """A sum over axes of size 1 is what it reads: both are views of each other, and the ops in them are viewed again
    in every turn."""
    t = Tiny(dtype)

    def mean(x: str) -> str:
        total = t.cast(t.reduce("SUM", x, 0, 1), dtype)
        return t.op("MUL", t.reshape(total, 1, 1), 1 / math.prod(t.shape(x)))

    x = t.input("x", 3, 5)
    greatest = t.cast(t.reduce("MAX", x, 0, 1), dtype)
    weights = t.op("EXP", t.op("SUB", x, t.spread(t.spread(greatest, 0, 5), 0, 3)))
    score = t.op("ADD", t.op("LOG", mean(weights)), t.reshape(greatest, 1, 1))
    for result in (mean(mean(x)), t.op("SUB", score, mean(x)), t.op("SUB", mean(score), mean(x))):
        _, stats = saturate(t.graph(result), RULES)
        assert {phase.stop for phase in stats.phases} == {Stop.SATURATED}
        assert stats.nodes < 1000


def test_budgets_stop_with_a_named_reason() -> None:
    graph = graphs.encoder(1, length=4, width=8, heads=2)
    for budget, stop in (
        (Budget(nodes=50), Stop.NODE_LIMIT),
        (Budget(iterations=1), Stop.ITERATION_LIMIT),
        (Budget(seconds=0.0), Stop.TIME_LIMIT),
    ):
        view, stats = saturate(graph, RULES, budget=budget)
        assert stats.phases[0].stop is stop
        assert view.tiny.keys() == {node.id for node in graph.nodes}
        (warning,) = [warning for warning in stats.warnings if str(stop).replace("_", " ") in warning.message]
        ended = [place for place, phase in enumerate(stats.phases, 1) if phase.stop is stop]
        reasons = ", ".join(map(str, ended))
        assert warning.message.startswith(
            f"phase{'s' if len(ended) > 1 else ''} {reasons} of {len(stats.phases)} stopped"
        )
        assert {"nodes=", "iterations=", "seconds="} & set(re.findall(r"\w+=", warning.hint or ""))


@pytest.mark.slow
def test_rules_that_match_for_ever_do_so_in_one_phase() -> None:
    """A gather at all places of a tensor is the tensor, so that the tensor is a gather of itself; a guard around it
    keeps its index from being an expression of places."""
    mask = tensor.input("mask", (2, 3))
    picked = mask[tensor.arange(2).reshape(2, 1, 1), tensor.arange(3).reshape(1, 1, 3)]
    scores = tensor.input("scores", (2, 4, 3)) + picked
    text, _ = tensor_to_tiny(tensor.concatenate([scores, tensor.input("sinks", (2, 4, 1))], 2) * 2.0)
    _, stats = saturate(load(text)[0], RULES)
    endless = [phase for phase in stats.phases if phase.stop is Stop.ITERATION_LIMIT]
    assert sum(phase.iterations for phase in stats.phases) < 300
    assert len(endless) <= 1


def test_stats_add_up() -> None:
    view, stats = saturate(graphs.gemm_bias_relu(), RULES)
    assert stats.matches["sum_of_products"] == 1
    assert sum(stats.families.values()) == sum(stats.matches.values())
    assert stats.nodes == sum(map(len, view.classes.values())) == stats.phases[-1].nodes
    assert stats.classes == len(view.classes)


def test_rules_are_named_on_what_they_built_only() -> None:
    graph = graphs.gemm_bias_relu()
    view, _ = saturate(graph, RULES)
    nodes = {node for class_ in view.classes.values() for node in class_}
    assert set(view.rules) <= nodes
    contract = next(node for node in nodes if node.ctor == "Contract")
    assert view.rules[contract] == "sum_of_products"
    alone, _ = saturate(graph, ())
    assert not alone.rules
    assert sum(map(len, alone.classes.values())) == len(nodes - view.rules.keys())


DETERMINISM = """
import hashlib, json
from eqsat.egraph.dump import to_json
from eqsat.egraph.saturate import saturate
from rules import RULES
from tests.support.programs.graphs import encoder
view, stats = saturate(encoder(2, length=4, width=8, heads=2), RULES)
print(hashlib.sha256(json.dumps([to_json(view), stats.matches]).encode()).hexdigest())
"""


@pytest.mark.slow
def test_the_hash_seed_changes_nothing() -> None:
    root = Path(__file__).parents[3]
    answers = {
        subprocess.run(
            [sys.executable, "-c", DETERMINISM],
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(root)},
            cwd=root, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "77")
    }  # fmt: skip
    assert len(answers) == 1


@pytest.mark.slow
def test_it_grows_linearly() -> None:
    one, two, four = (saturate(graphs.encoder(layers, 8, 8, 2), RULES)[1].nodes for layers in (1, 2, 4))
    assert four - two <= 2.05 * (two - one)


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "most"), [(graphs.encoder(), 14_000), (graphs.resnet50(), 12_500)])
def test_models_of_real_size(graph: Graph, most: int) -> None:
    _, stats = saturate(graph, RULES)
    assert all(phase.stop is Stop.SATURATED for phase in stats.phases)
    assert stats.nodes < most
    assert stats.seconds < 20
