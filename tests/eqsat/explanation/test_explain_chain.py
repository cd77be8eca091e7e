"""The chain of rewrites behind each kernel: every step keeps the value, and the steps are those of the rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

import eqsat
from eqsat import EqsatError, optimize_and_compile
from eqsat import tensor as t
from eqsat.explanation.history import History
from eqsat.explanation.proof import Replay
from eqsat.options import Budget, Options
from eqsat.runtime.verify import random_inputs
from ir.diagnostics import Kind
from ir.term.language import PBin
from ir.term.rule import Exactness, Rule, pattern_variables
from ir.tiny.graph import Graph
from rules import RULES
from tests.support.fuzz.strategies import random_graph
from tests.support.oracles.derivations import complaint, derivations, unmet
from tests.support.programs import graphs
from tests.support.sampling import first_few
from tests.support.stages.path import pricer


def softmax() -> Graph:
    tiny = graphs.Tiny()
    return tiny.graph(tiny.softmax(tiny.input("x", 5, 7)))


def layer_norm() -> Graph:
    tiny = graphs.Tiny()
    return tiny.graph(tiny.layer_norm(tiny.input("x", 5, 7), "n"))


def padded_max() -> Graph:
    tiny = graphs.Tiny()
    x = tiny.op("PAD", tiny.input("x", 2, 5), pad=((0, 0), (1, 2)), value=0)
    return tiny.graph(tiny.op("RELU", tiny.reduce("MAX", tiny.op("RELU", x), 0)))


def a_copy() -> Graph:
    tiny = graphs.Tiny()
    return tiny.graph(tiny.permute(tiny.input("x", 3, 4), 1, 0))


CASES: dict[str, Callable[[], Graph]] = {
    "gemm + bias + relu": graphs.gemm_bias_relu,
    "gemm in fp16": lambda: graphs.gemm_bias_relu(dtype="fp16"),
    "conv + bn + relu": graphs.conv_bn_relu,
    "softmax": softmax,
    "layer norm": layer_norm,
    "attention": graphs.attention,
    "encoder": lambda: graphs.encoder(1, length=4, width=8, heads=2),
    "padded": padded_max,
    "copy": a_copy,
}


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    return random_inputs({name: graph.types[node.id] for name, node in graph.inputs.items()}, seed)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_step_of_every_chain_keeps_the_value(case: str) -> None:
    graph = CASES[case]()
    inputs = inputs_of(graph)
    for history, call, derivation in derivations(graph):
        assert complaint(graph, history, derivation, inputs) == "", call
        wholes = derivation.wholes()
        assert (wholes[0], wholes[-1]) == (derivation.start, derivation.end)
        assert len(wholes) == len(derivation.rewrites) + 1 == len(set(wholes))


def merged() -> Graph:
    """Two products of one operand, each with a bias."""
    tiny = graphs.Tiny()
    x = tiny.input("x", 8, 64)
    return tiny.graph(*(tiny.op("RELU", tiny.linear(x, name, size)) for name, size in (("a", 3), ("b", 5))))


@pytest.mark.slow
def test_what_a_rule_asks_for_elsewhere_was_there() -> None:
    graph, options = merged(), Options()
    constants = [name for name in graph.inputs if name != "x"]
    asked = 0
    for history, call, derivation in derivations(graph, options, pricer(), constants):
        assert unmet(derivation) == "", call
        assert complaint(graph, history, derivation, inputs_of(graph)) == "", call
        asked += sum(len(rewrite.others) for rewrite in derivation.rewrites)
    assert asked


@first_few(12, "seed", range(25))
def test_the_chains_of_random_programs_hold(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 14)
    inputs = inputs_of(graph, seed)
    for history, call, derivation in derivations(graph):
        assert complaint(graph, history, derivation, inputs) == "", call


@pytest.mark.slow
def test_a_buffer_of_a_rules_own_tells_where_it_comes_from() -> None:
    graph = graphs.attention(length=16, width=16)
    weights = [name for name in graph.inputs if name != "x"]
    births = []
    options = Options()
    for history, call, derivation in derivations(graph, options, constants=weights):
        assert complaint(graph, history, derivation, inputs_of(graph)) == "", call
        births += [derivation.birth.rule.family] if derivation.birth else []
        assert (derivation.birth is None) == (call.writes[0] in history.view.tiny)
    assert "merging" in births


@pytest.mark.slow
def test_what_a_rule_made_is_told_in_names_of_tensors() -> None:
    x, rng = t.input("x", (8, 32)), np.random.default_rng(0)
    a, b, c = (t.constant(rng.standard_normal((32, 32)).astype(np.float32), name=name) for name in "abc")
    program = optimize_and_compile(((x @ a).relu() * (x @ b).sigmoid()) @ c, threads=1, target="cpu")
    (merged,) = program.kernels[0].writes
    result, read = program.chain(0), program.chain(1)
    assert result.end.startswith("contract[i2<32](x[i0, i2], {(a[i1, i0] if 0<=i0<32 else 0) + (b[")
    assert f"relu({merged}[i0, i2])·sigmoid({merged}[i0, i2 + 32])" in read.end
    assert "n0" not in result.end + read.end


def test_a_wrong_step_is_found() -> None:
    graph = graphs.gemm_bias_relu()
    ((history, _, derivation),) = derivations(graph)
    wrong = list(derivation.rewrites)
    wrong[5] = wrong[5]._replace(before=wrong[-1].before)
    assert complaint(graph, history, replace(derivation, rewrites=tuple(wrong)), inputs_of(graph))


@pytest.mark.slow
def test_a_chain_names_the_rules_behind_the_kernel() -> None:
    program = optimize_and_compile(graphs.gemm_bias_relu(16, 32), threads=1)
    (kernel,) = program.kernels
    chain = program.chain(kernel)
    assert chain.output == kernel.writes[0]
    assert chain.start == "relu(n12)"
    assert chain.end == "relu(contract[i2<8](x[i0, i2], fc.w[i2, i1]) + fc.b[i1])"
    assert set(kernel.rules) <= {step.rule for step in chain.steps}
    assert not any(step.backwards for step in chain.steps)
    equations = {rule.name: rule.equation for rule in RULES}
    for step in chain.steps:
        assert step.equation == equations[step.rule]
        assert step.before != step.after
        assert step.certificate in ("proved", "exact", "sampled")
    said = program.explain(0)
    assert all(step.rule in said and step.after in said for step in chain.steps)
    assert program.explained(0)["chains"] == json.loads(msgspec.json.encode([chain]))
    assert str(chain).count("→") == len(chain.steps)


@pytest.mark.slow
def test_kernels_are_named_in_several_ways() -> None:
    program = optimize_and_compile(graphs.attention(length=16, width=16), threads=1)
    for place, kernel in enumerate(program.kernels):
        chain = program.chain(kernel)
        assert chain.output == kernel.writes[0]
        assert chain == program.chain(place) == program.chain(kernel.writes[0]) == program.chain(kernel.name)
    functions = [kernel.function for kernel in program.kernels]
    shared = next(function for function in functions if functions.count(function) > 1)
    for wrong, says in ((shared, "kernels are called"), ("no", "no kernel 'no'"), (99, "no kernel 99")):
        with pytest.raises(EqsatError, match=says) as error:
            program.chain(wrong)
        assert error.value.kind is Kind.INVALID_OPTION


@pytest.mark.slow
def test_chains_survive_the_cache_and_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE_DIR", str(tmp_path / "cache"))
    x, w = t.input("x", (8, 6)), t.constant(np.ones((6, 5), np.float32))
    first = optimize_and_compile((x @ w).relu(), threads=1)
    chains = [first.chain(place) for place in range(len(first.kernels))]
    monkeypatch.setattr("eqsat.make_artifact.optimize", lambda *_: pytest.fail("optimized twice"))
    first.save(tmp_path / "f")
    again = optimize_and_compile((x @ w).relu(), threads=1)
    loaded = eqsat.load(tmp_path / "f")
    for other in (again, loaded):
        assert [other.chain(place) for place in range(len(chains))] == chains


@pytest.mark.slow
def test_a_rule_of_the_callers_stands_in_the_chain() -> None:
    p, q, r, d = pattern_variables("p:P q:P r:P d:S")
    sides = PBin("add", d, PBin("mul", d, p, r), PBin("mul", d, q, r)), PBin("mul", d, PBin("add", d, p, q), r)
    rule = Rule("factor_out", "mine", "p·r + q·r = (p + q)·r", *sides, exactness=Exactness.REASSOCIATE)
    x, y, z = (t.input(name, (64, 64)) for name in "xyz")
    program = optimize_and_compile(x * z + y * z, rules=[rule], threads=1)
    assert "factor_out" in {step.rule for step in program.chain(0).steps}


def test_the_trace_changes_nothing_of_the_egraph() -> None:
    from eqsat.egraph.saturate import saturate

    graph = graphs.conv_bn_relu()
    history = History.again(graph, Options())
    view, _ = saturate(graph, RULES)
    assert history.view == view


def test_a_saturation_that_was_cut_short_is_explained_as_far_as_it_went() -> None:
    graph = graphs.gemm_bias_relu()
    for history, call, derivation in derivations(graph, Options(budget=Budget(iterations=2))):
        assert complaint(graph, history, derivation, inputs_of(graph)) == "", call


def test_terms_that_nothing_united_are_not_explained() -> None:
    replay = Replay({})
    one, other = replay.leaf("a", 0), replay.leaf("b", 1)
    assert not replay.are_equal(one, other)
    assert list(replay.explain(one, one)) == []


@pytest.mark.slow
def test_long_programs_are_explained_without_recursion() -> None:
    tiny = graphs.Tiny()
    x = tiny.input("x", 3)
    for _ in range(1000):
        x = tiny.op("SIN", x)
    graph = tiny.graph(x)
    for _, call, derivation in derivations(graph):
        assert len(derivation.rewrites) >= len(call.uops) // 2
