"""Dumps and explanations of a compiled program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from eqsat import Program, nn, optimize_and_compile
from eqsat import tensor as t
from eqsat.explanation.rule_text import rule_text
from eqsat.runtime.dump import GPU_STAGES, STAGES, TEXTS, Stages, check_stage
from ir.diagnostics import EqsatError, Kind
from ir.module.dump import load_module
from ir.module.module_verify import verify
from ir.plan.schedule import Schedule
from ir.region.dump import load_region
from ir.serde import from_json
from ir.term.language import App, Fact, Prim, Var, subterms
from ir.term.rule import Rule, condition_terms
from ir.tiny.bind import load
from rules import RULES
from tests.support.sampling import one_in

FRONTEND = {
    "signature": {"inputs": [{"tensor": "a"}, {"tensor": "b"}, {"tensor": "c"}], "outputs": [{"tensor": "y"}]},
    "tensors": {
        "a": {"dtype": "fp32", "shape": [16, 24]},
        "b": {"dtype": "fp32", "shape": [24, 32]},
        "c": {"dtype": "fp32", "shape": [32]},
    },
    "graph": [
        {"op": "GEMM", "name": "gemm", "inputs": ["a", "b", "c"], "outputs": ["s"]},
        {"op": "Elementwise", "fn": "relu", "name": "relu", "inputs": ["s"], "outputs": ["y"]},
    ],
}


@pytest.fixture(scope="module")
def program() -> Program:
    return optimize_and_compile(FRONTEND, threads=1)


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "c"])
def test_every_stage_is_json(program: Program, stage: str) -> None:
    dumped = program.dump(stage, as_json=True)
    assert dumped
    assert json.loads(json.dumps(dumped)) == dumped, "plain JSON values"
    assert program.dump(stage, as_json=True) == dumped, "twice the same"


def pooled_convolution() -> t.Tensor:
    """A window, padding with -inf, bool and integer numbers, a scan, a gather, a constant."""
    x, w = t.input("x", (1, 4, 9, 7)), t.input("w", (6, 4, 3, 3))
    pooled = nn.max_pool2d(nn.conv2d(x, w, padding=1), 3, 2, 1)
    return pooled.cumsum(3).take(t.input("at", (3,), "i64"), 1) * 0.5


@pytest.mark.parametrize("make", [pooled_convolution, lambda: t.input("x", (0, 5)).sum(0)], ids=["conv", "empty"])
def test_every_stage_of_odd_programs_is_json(make: Callable[[], t.Tensor]) -> None:
    result = optimize_and_compile(make(), threads=1)
    for stage in STAGES[1:-1]:
        dumped = result.dump(stage, as_json=True)
        assert json.loads(json.dumps(dumped, allow_nan=False)) == dumped, stage
    assert load_module(result.dump("module", as_json=True)).regions


def test_a_convolution_is_called_one_in_every_stage() -> None:
    x, w = t.input("x", (1, 8, 20, 20)), t.input("w", (24, 8, 3, 3))
    result = optimize_and_compile(nn.conv2d(x, w), threads=1)
    (region,), (plan,) = result.dump("region", as_json=True).values(), result.dump("plan", as_json=True).values()
    ops = [let["op"] for let in region["region"]["body"] if "op" in let]
    assert [op["pattern"] for op in ops if op["kind"] == "contraction"] == ["conv"]
    assert list(plan["algo_choice"]) == ["conv"]
    (view,) = result.dump("poly_view", as_json=True).values()
    assert view["poly_view"]["blocks"][0]["attrs"]["pattern"] == "conv"


def test_dumps_read_back(program: Program) -> None:
    assert optimize_and_compile(program.dump("frontend", as_json=True), threads=1).dump(
        "tiny", as_json=True
    ) == program.dump("tiny", as_json=True)
    graph, notes = load(program.dump("tiny", as_json=True), strict=True)
    assert graph.to_json() == program.dump("tiny", as_json=True)
    assert not notes
    module = load_module(program.dump("module", as_json=True))
    verify(module)
    names = [region.name for region in module.regions]
    assert [load_region(kernel["region"]) for kernel in program.dump("region", as_json=True).values()] == list(
        module.regions
    )
    assert [kernel["region"] for kernel in program.dump("region", as_json=True).values()] == program.dump(
        "module", as_json=True
    )["regions"]
    for stage in ("region", "indexbook", "poly_view", "poly_core", "plan", "cpu"):
        assert list(program.dump(stage, as_json=True)) == names
    for plan in program.dump("plan", as_json=True).values():
        assert from_json(json.dumps(plan), Schedule)


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "c"])
def test_every_stage_prints(program: Program, stage: str) -> None:
    text = program.dump(stage)
    assert isinstance(text, str)
    assert text.strip()
    assert not text.startswith("{"), "no JSON"
    assert program.dump(stage) == text, "twice the same"


def test_the_printed_form_is_that_of_the_nouns(program: Program) -> None:
    graph, _ = load(program.dump("tiny", as_json=True), strict=True)
    assert program.dump("tiny") == str(graph)
    module = load_module(program.dump("module", as_json=True))
    assert program.dump("module") == str(module)
    for region in module.regions:
        assert f"kernel {region.name}\n{region}" in program.dump("region")


@pytest.mark.slow
def test_one_kernel_of_a_stage() -> None:
    x, w = t.input("x", (8, 16)), t.input("w", (16, 16))
    actual = optimize_and_compile(nn.softmax(t.barrier((x @ w).relu())) @ w, threads=1, target="cpu")
    assert len(actual.kernels) > 1
    for place, kernel in enumerate(actual.kernels):
        others = [other for other in actual.kernels if other is not kernel]
        for wanted in (place, kernel, kernel.writes[0]):
            for stage in ("region", "indexbook", "poly_view", "poly_core", "plan", "cpu", "c"):
                part = actual.dump(stage, wanted)
                assert part in actual.dump(stage)
                assert len(part) < len(actual.dump(stage))
            assert f"{kernel.function}(" in actual.source(wanted)
            assert not any(f"{other.function}(" in actual.source(wanted) for other in others)
            assert actual.dump("plan", wanted, as_json=True) in actual.dump("plan", as_json=True).values()
            assert "tile: " in actual.dump("plan", wanted)
    for stage in ("tiny", "egraph", "module"):
        with pytest.raises(EqsatError, match="the whole program") as caught:
            actual.dump(stage, 0)
        assert "region" in str(caught.value)
    with pytest.raises(EqsatError, match="no kernel"):
        actual.source("nobody")
    with pytest.raises(EqsatError, match="no kernel"):
        actual.dump("plan", "nobody")


def test_c_is_the_text_that_is_compiled(program: Program) -> None:
    assert program.dump("c") == program.source()
    for kernel in program.kernels:
        assert f"{kernel.function}(" in program.dump("c")


@pytest.mark.parametrize("stage", ["", "gpu", "cu", "plans", "__init__", "call__"])
def test_an_unknown_stage_says_what_there_is(program: Program, stage: str) -> None:
    asks: list[Callable[[str], object]] = [program.dump]
    if stage not in GPU_STAGES:
        asks.append(check_stage)
    for ask in asks:
        with pytest.raises(EqsatError) as caught:
            ask(stage)
        assert caught.value.kind is Kind.INVALID_OPTION
        assert "poly_core" in str(caught.value)


def test_a_tiny_program_has_no_frontend() -> None:
    program = optimize_and_compile(t.input("x", (3,)) + 1, threads=1)
    with pytest.raises(EqsatError, match="frontend"):
        program.dump("frontend", as_json=True)


def test_explain_names_kernels_uops_rules_and_prices(program: Program) -> None:
    text = program.explain()
    for kernel in program.kernels:
        assert kernel.name in text
        assert all(uop in text for uop in kernel.uops)
        assert all(rule in text for rule in kernel.rules)
    assert "bound by" in text
    uops = [uop for kernel in program.kernels for uop in kernel.uops]
    assert len(uops) == program.stats.kernels_before, "each uop is some kernel's work"


@pytest.mark.slow
@one_in(16, RULES, others=pytest.mark.exhaustive)
def test_every_rule_can_be_shown_with_what_its_words_mean(rule: Rule) -> None:
    text = rule_text(rule.name)
    assert rule.equation in text
    assert "\nexample\n" in text
    glossary = " ".join(text.split("\nwhere\n")[1].split("\nexample\n")[0].split())
    for term in (*rule.patterns, rule.rhs, *condition_terms(rule.when)):
        for subterm in subterms(term):
            match subterm:
                case App(ctor):
                    assert f"{ctor.name}({', '.join(ctor.places)}): {ctor.doc}" in glossary
                case Prim(fn):
                    assert fn.meaning
                    assert not fn.meaning.startswith(("the same for", "whether"))
                    assert f"{fn.name}({', '.join(fn.parameters)}): {fn.meaning}" in glossary
                case Fact(analysis):
                    assert f"{analysis.name}: {analysis.doc.partition(' (')[0]}" in glossary
                case Var(name):
                    assert re.search(rf"\b{name}[:,]", glossary)


def test_a_rule_that_is_none_suggests_its_neighbours() -> None:
    name = RULES[0].name
    with pytest.raises(EqsatError) as caught:
        rule_text(name + "x")
    assert caught.value.kind is Kind.INVALID_OPTION
    assert name in str(caught.value)


def test_a_rule_like_none_gets_a_short_hint() -> None:
    with pytest.raises(EqsatError) as caught:
        rule_text("nope")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("stage", [stage for stage in dict.fromkeys((*STAGES, *GPU_STAGES)) if stage not in TEXTS])
def test_every_stage_has_a_dump(stage: str) -> None:
    assert callable(getattr(Stages, f"_{stage}", None)), f"write the method _{stage} of Stages in eqsat/runtime/dump.py"
