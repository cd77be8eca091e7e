"""A program that is declared to the engine part by part does what it does when it is declared whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from eqsat.egraph import growing, program
from eqsat.egraph.dump import to_json
from eqsat.egraph.egglog_text import joined_tables, pattern_text
from eqsat.egraph.engine import EGraph, call_primitives
from eqsat.egraph.query_text import SEPARATOR
from eqsat.egraph.saturate import begin
from ir.diagnostics import EqsatError, Kind
from ir.term.language import CTORS, Input, Load, PUn, Pure, Store
from ir.term.rule import Clause, Rule, pattern_variables
from ir.tiny.graph import Graph
from rules import RULES, analyses, rule_named
from tests.support.fuzz.strategies import random_graph
from tests.support.oracles.canary import saturate, saturate_terms
from tests.support.programs import graphs


def _programs() -> Iterator[Graph]:
    yield graphs.gemm_bias_relu()
    yield graphs.attention()
    yield random_graph(np.random.default_rng(11), 16)  # without barriers, which change all rules


@cache
def _every_table() -> frozenset[str]:
    queries: tuple[Clause | Rule, ...] = (*analyses.CLAUSES, *RULES)
    tables = {table.name for query in queries for table in joined_tables(query)}
    return frozenset({*CTORS, *(analysis.name for analysis in analyses.ANALYSES), *tables})


@pytest.mark.slow
@pytest.mark.parametrize(("number", "traced"), [(0, True), (1, False), (2, True)])
def test_what_waits_matches_as_if_it_had_been_there(number: int, traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = [*_programs()][number]

    def outcome() -> tuple[object, ...]:
        saturation = begin(graph, RULES, traced=traced)
        iterations = []
        while iteration := saturation.step():
            iterations.append((iteration.phase, iteration.nodes, dict(sorted(iteration.matches.items()))))
        view = saturation.view()
        trace = saturation.trace() if traced else None
        return to_json(view), saturation.stats(view).matches, iterations, trace

    usual = outcome()
    for watched in (True, False):
        monkeypatch.setattr(growing, "_builds", lambda _, watched=watched: watched)
        assert outcome() == usual
    monkeypatch.setattr(EGraph, "filled_tables", lambda _: _every_table())
    assert outcome() == usual


def test_most_rules_are_never_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    declared: list[str] = []

    def write_and_note(rule: Rule, ruleset: str, traced: bool) -> str:
        declared.append(rule.name)
        return program.write_rule(rule, ruleset, traced)

    monkeypatch.setattr(growing, "write_rule", write_and_note)
    _, stats = saturate(graphs.gemm_bias_relu(), RULES)
    matched = {name for name, times in stats.matches.items() if times}
    assert matched <= set(declared)
    assert len(declared) == len(set(declared)) < len(RULES) / 5


def test_what_a_watch_has_found_need_not_be_found_again() -> None:
    p, d = pattern_variables("p:P d:S")
    negative = PUn("neg", d, p)
    early = Rule("early", "early", "", negative, PUn("abs", d, PUn("abs", d, PUn("abs", d, negative))))
    late = Rule("late", "late", "", negative, PUn("cos", d, PUn("cos", d, PUn("cos", d, negative))))
    assert pattern_text(early) == pattern_text(late)
    x = Load(Input("X", "fp32[4]"), "[4] -> [i0]")
    kernel = Store(Pure(PUn("neg", "fp32", x)), "fp32[4]")
    _, stats = saturate_terms([("y", kernel)], [early, late], phases=(("early",), ("late",)))
    assert stats.matches["early"]
    assert stats.matches["late"]


def test_two_rules_of_one_name_are_refused() -> None:
    rule = rule_named("mul_one")
    with pytest.raises(EqsatError) as caught:
        saturate(graphs.gemm_bias_relu(), (rule, rule))
    assert caught.value.kind is Kind.UNSOUND_RULE


@pytest.mark.parametrize(
    ("steps", "given", "answer"),
    [
        ("rules.primitives:typed 0 1", ("fp32", "[4]"), "fp32[4]"),
        ("rules.primitives:typed 0 1;rules.primitives:element_of s0", ("fp32", "[4]"), "fp32"),
        ("rules.primitives:one_of 0 1;rules.primitives:typed 0 2", ("mul", "add mul", "[4]"), "mul[4]"),
        ("rules.primitives:one_of 0 1;rules.primitives:typed 0 2", ("sub", "add mul", "[4]"), ""),
    ],
)
def test_a_call_is_its_steps(steps: str, given: tuple[str, ...], answer: str) -> None:
    assert call_primitives(SEPARATOR.join((steps, *given))) == answer
