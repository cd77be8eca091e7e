"""Uops that no kernel computes, and rules that built nothing: the answer names the rules that were there first."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat import EqsatError, optimize_and_compile
from eqsat import tensor as t
from eqsat.explanation.explore import Exploration, explore
from ir.diagnostics import Kind

X, W = t.input("x", (12, 8)), t.input("w", (8, 6))


@pytest.fixture(scope="module")
def run() -> Exploration:
    known = t.constant(np.ones(6, "float32")).exp()
    return explore(((X * 1).T.T @ W).relu().relu() + known, target="cpu")


def test_every_uop_is_computed_or_absent_for_a_reason(run: Exploration) -> None:
    graph = run.setting.bound.graph
    answers = {node.id: run.why_absent(node.id) for node in graph.nodes}
    computed = {uop for kernel in run.kernels for uop in kernel.uops}
    assert {uop for uop, answer in answers.items() if answer.kind == "computed"} == computed
    of = {node.uop: answers[node.id] for node in graph.nodes if node.id not in computed}
    assert (of["MUL"].kind, "mul_one" in of["MUL"].rules) == ("equal", True)
    assert "equal to x" in of["MUL"].verdict
    assert of["EXP"].kind == "constant"
    first, second = (node.id for node in graph.nodes if node.uop == "PERMUTE" and node.id not in computed)
    assert (answers[first].kind, second in answers[first].verdict) == ("readers", True)
    assert (answers[second].kind, "compose_movements" in answers[second].rules) == ("equal", True)
    with pytest.raises(EqsatError) as caught:
        run.why_absent("nothing")
    assert caught.value.kind is Kind.INVALID_OPTION


@pytest.mark.slow
def test_a_program_answers_for_all_of_its_parts() -> None:
    program = optimize_and_compile(((X * 1) @ W).relu(), target="cpu")
    graph = program.explore().setting.bound.graph
    answers = {node.uop: program.why_absent(node.id) for node in graph.nodes}
    assert [answers[uop].kind for uop in ("INPUT", "MUL", "RELU")] == ["input", "computed", "computed"]
    assert "mul_one" in program.why_absent(next(node.id for node in graph.nodes if node.uop == "MUL")).rules
    with pytest.raises(EqsatError, match="no uop 'nothing'"):
        program.why_absent("nothing")


def test_a_program_with_a_loop_answers_for_the_loop_s_graph() -> None:
    last, _ = t.scan(lambda c, x: ((c * 1 + x).tanh(), None), t.zeros((8,)), t.input("xs", (5, 8)))
    program = optimize_and_compile(last, target="cpu")
    loop = program.kernels[0].writes[0].partition("/")[0]
    kinds = {uop: program.why_absent(uop).kind for uop in (loop, "n0", "n1", "n3", f"{loop}/n0", f"{loop}/n2")}
    assert [*kinds.values()] == ["loop", "constant", "constant", "input", "equal", "computed"]


@pytest.mark.slow
def test_rules_without_work_name_those_that_were_first(run: Exploration) -> None:
    answers = {rule.name: run.why_unused(rule.name) for rule in run.rules}
    for name, answer in answers.items():
        assert answer.matches <= run.matches.get(name, 0), name
        assert answer.built <= sum(rule == name for rule in run.history.view.rules.values())
    assert answers["sum_of_narrow_products"].first == {"sum_of_products": 1}
    assert "none of the ops" in answers["view_through_ternary"].verdict
    assert "no term matches" in answers["log_of_exp"].verdict if "log_of_exp" in answers else True
    with pytest.raises(EqsatError):
        run.why_unused("no_such_rule")
