"""Dumps and explanations of a compiled program."""

from __future__ import annotations

import json

import pytest

from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.dump import STAGES, check_stage
from eqsat.explain import rule_text
from ir.diagnostics import EqsatError, Kind
from ir.module import Module
from ir.plan import Plan
from ir.serde import from_json
from ir.tiny_bind import load
from rules import RULES

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
    dumped = program.dump(stage)
    assert dumped
    assert json.loads(json.dumps(dumped)) == json.loads(json.dumps(program.dump(stage))), "twice the same"


def test_dumps_read_back(program: Program) -> None:
    assert optimize_and_compile(program.dump("frontend"), threads=1).dump("tiny") == program.dump("tiny")
    graph, notes = load(program.dump("tiny"), strict=True)
    assert graph.to_json() == program.dump("tiny")
    assert not notes
    module = from_json(json.dumps(program.dump("module")), Module)
    names = [region.name for region in module.regions]
    for stage in ("region", "indexbook", "poly_view", "poly_core", "plan", "cpu"):
        assert list(program.dump(stage)) == names
    for plan in program.dump("plan").values():
        assert from_json(json.dumps(plan), Plan)


def test_c_is_the_text_that_is_compiled(program: Program) -> None:
    assert program.dump("c") == program.source()
    for kernel in program.kernels:
        assert f"{kernel.function}(" in program.dump("c")


@pytest.mark.parametrize("stage", ["", "gpu", "cu", "plans", "__init__", "call__"])
def test_an_unknown_stage_says_what_there_is(program: Program, stage: str) -> None:
    for ask in (program.dump, check_stage):
        with pytest.raises(EqsatError) as caught:
            ask(stage)
        assert caught.value.kind is Kind.UNSUPPORTED_OP
        assert "poly_core" in str(caught.value)


def test_a_tiny_program_has_no_frontend() -> None:
    program = optimize_and_compile(t.input("x", (3,)) + 1, threads=1)
    with pytest.raises(EqsatError, match="frontend"):
        program.dump("frontend")


def test_explain_names_kernels_uops_rules_and_prices(program: Program) -> None:
    text = program.explain()
    for kernel in program.kernels:
        assert kernel.name in text
        assert all(uop in text for uop in kernel.uops)
        assert all(rule in text for rule in kernel.rules)
    assert "bound by" in text
    uops = [uop for kernel in program.kernels for uop in kernel.uops]
    assert len(uops) == program.stats.kernels_before, "each uop is some kernel's work"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_can_be_shown(rule: object) -> None:
    text = rule_text(rule.name)  # type: ignore[attr-defined]
    assert rule.equation in text  # type: ignore[attr-defined]


def test_a_rule_that_is_none_suggests_its_neighbours() -> None:
    name = RULES[0].name
    with pytest.raises(EqsatError) as caught:
        rule_text(name + "x")
    assert caught.value.kind is Kind.UNSOUND_RULE
    assert name in str(caught.value)
