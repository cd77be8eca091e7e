"""Budgets hold inside an iteration: rules that would match too often rest, what is measured interrupts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import count

import numpy as np
import pytest

from eqsat.egraph import meter
from eqsat.egraph.dump import to_json
from eqsat.egraph.engine import Interruption, watch_calls
from eqsat.egraph.forecast import Forecast
from eqsat.egraph.meter import Meter
from eqsat.egraph.program import write_rule
from eqsat.egraph.saturate import begin, saturate
from eqsat.egraph.stop import Stop
from eqsat.egraph.view import EGraphView
from eqsat.extraction.extract import extract
from eqsat.options import Budget
from ir.diagnostics import Kind
from ir.term.language import CTORS, App, PBin, Term
from ir.term.rule import Exactness, Rule, pattern_variables
from ir.tiny.graph import Graph
from rules import RULES
from tests.support.fuzz.strategies import random_graph
from tests.support.programs import graphs
from tests.support.programs.graphs import Tiny
from tests.support.stages.path import pricer

p, q, r, d = pattern_variables("p:P q:P r:P d:S")


def _times(left: Term, right: Term) -> App:
    return PBin("mul", d, left, right)


_LEFT, _RIGHT = _times(_times(p, q), r), _times(p, _times(q, r))
ENDLESS = (
    Rule("to_the_right", "mine", "(p·q)·r = p·(q·r)", _LEFT, _RIGHT, exactness=Exactness.REASSOCIATE),
    Rule("to_the_left", "mine", "p·(q·r) = (p·q)·r", _RIGHT, _LEFT, exactness=Exactness.REASSOCIATE),
    Rule("commute", "mine", "p·q = q·p", _times(p, q), _times(q, p)),
)
"""Of n factors they make every product of some: 3ⁿ e-nodes."""


def _product(factors: int = 12) -> Graph:
    t = Tiny()
    x, *others = (t.input(f"x{place}", 4) for place in range(factors))
    for other in others:
        x = t.op("MUL", x, other)
    return t.graph(x)


def _is_usable(view: EGraphView, graph: Graph) -> bool:
    return len(extract(view, graph.outputs, pricer()).kernels) > 0


@pytest.mark.slow
def test_a_rule_that_would_match_too_often_rests() -> None:
    graph, most = _product(), 30_000
    view, stats = saturate(graph, (*RULES, *ENDLESS), budget=Budget(nodes=most))
    assert {rule.name for rule in ENDLESS} & {*stats.phases[-1].resting}
    assert stats.phases[-1].stop is Stop.MATCH_LIMIT
    assert stats.nodes < most
    (warning,) = stats.warnings
    assert warning.kind is Kind.RESOURCE_EXCEEDED
    assert warning.details["resting"] == list(stats.phases[-1].resting)
    assert "another run" not in warning.message
    assert _is_usable(view, graph)
    again, _ = saturate(graph, (*RULES, *ENDLESS), budget=Budget(nodes=most))
    assert to_json(again) == to_json(view)


def test_products_of_numbers_come_to_an_end() -> None:
    """x·½·2 is x, so x is a product of itself, of which regrouping made products for ever."""
    t = Tiny()
    x = t.op("MUL", t.op("MUL", t.op("MUL", t.input("x", 4), 0.5), 2.0), t.input("z", 4))
    _, stats = saturate(t.graph(x), (*RULES, ENDLESS[0]))
    assert stats.nodes < 1000


@pytest.mark.slow
def test_a_rule_rests_and_the_others_go_on() -> None:
    graph = graphs.encoder(1, length=4, width=8, heads=2)
    left_out = "fuse_binary_left"
    saturation = begin(graph, RULES)
    while saturation.step() and len(saturation.phases) < 4:
        pass
    saturation._program.rest([left_out])
    saturation.finish()
    without, _ = saturate(graph, [rule for rule in RULES if rule.name != left_out])
    assert saturation.view().classes == without.classes


FORECAST = [
    graphs.gemm_bias_relu(),
    graphs.attention(),
    *(random_graph(np.random.default_rng(k), 24) for k in range(3)),
]


@pytest.mark.parametrize("graph", FORECAST)
def test_there_are_no_more_matches_than_were_forecast(graph: Graph) -> None:
    saturation = begin(graph, RULES)
    saturation.finish()
    forecast = Forecast(saturation.egraph.rows(CTORS))
    declared = [rule for rules in saturation._program._declared.values() for rule in rules]
    assert declared
    saturation.egraph.execute(["(ruleset again)", *(write_rule(rule, "again") for rule in declared)])
    matches, _ = saturation.egraph.run("(run again)")
    assert sum(matches.values()) > 0
    for rule in declared:  # x ∧ x is counted once for each operand
        assert matches.get(rule.name, 0) <= 2 * forecast.of(rule), rule.name


def test_ordinary_programs_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forecast, "__init__", lambda *_: pytest.fail("a look costs more than it tells"))
    saturate(graphs.encoder(2, length=4, width=8, heads=2), RULES)


@pytest.mark.slow
def test_an_interruption_leaves_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.encoder(1, length=4, width=8, heads=2)
    for last in (1, 100, 700):
        calls = count()

        def check(self: Meter, calls: Iterable[int] = calls, last: int = last) -> None:
            if next(iter(calls)) >= last:
                self._deadline = 0.0
                raise Interruption

        monkeypatch.setattr(Meter, "check", check)
        view, stats = saturate(graph, RULES)
        assert next(calls) == last + 1
        assert stats.phases[-1].stop is Stop.TIME_LIMIT
        assert "another run may differ" in stats.warnings[0].message
        assert _is_usable(view, graph)


def test_only_watched_calls_are_interrupted() -> None:
    def interrupt() -> None:
        raise Interruption

    saturation = begin(graphs.gemm_bias_relu(), RULES)
    saturation._program.iterate(0)
    with pytest.raises(Interruption), watch_calls(interrupt):
        saturation._program.iterate(0)
    saturation.finish()
    assert all(phase.stop is Stop.SATURATED for phase in saturation.phases)


def test_time_and_memory_are_measured_inside_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    now, taken = [10.0], [1000]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(meter, "resident_bytes", lambda: taken[0])
    timed, sized, free = Meter(Budget(seconds=2), 9.0), Meter(Budget(bytes=500), 9.0), Meter(Budget(), 9.0)
    for _ in range(600):
        timed.check()
        sized.check()
    now[0] = 11.5
    with pytest.raises(Interruption):
        timed.check()
    assert timed.stop() is Stop.TIME_LIMIT
    taken[0] = 1501
    sized._calls = meter._EVERY - 1
    with pytest.raises(Interruption):
        sized.check()
    assert sized.stop() is Stop.MEMORY_LIMIT
    assert free.stop() is None


def test_memory_is_what_saturation_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the process is made to grow: memory that earlier tests freed may serve a whole saturation."""
    sizes = count(1 << 30, 1 << 20)
    monkeypatch.setattr(meter, "resident_bytes", lambda: next(sizes))
    _, stats = saturate(graphs.gemm_bias_relu(), RULES, budget=Budget(bytes=1 << 30))
    assert all(phase.stop is Stop.SATURATED for phase in stats.phases)
    _, stats = saturate(graphs.encoder(1, length=4, width=8, heads=2), RULES, budget=Budget(bytes=0))
    assert stats.phases[-1].stop is Stop.MEMORY_LIMIT
    assert stats.warnings[0].hint == "a larger budget=, as in eqsat.Budget(bytes=…)"
