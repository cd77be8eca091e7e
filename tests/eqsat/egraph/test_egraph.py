"""Tiny graphs as terms, the adapter to egglog, and the e-graph as JSON, DOT and SVG."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from eqsat import optimize_and_compile, tensor
from eqsat.egraph import dump as egraph_dump
from eqsat.egraph.engine import EGraph
from eqsat.egraph.query_text import Body, quote, tables
from eqsat.egraph.tiny_to_term import tiny_to_terms
from ir.diagnostics import EqsatError, Kind
from ir.term.language import App, Input, Load, Pure, Sort, Store
from ir.term.playback import evaluate
from ir.term.rule import Rule
from ir.tiny.playback import values
from rules import RULES, rule_named
from tests.support.fuzz.strategies import random_graph, random_inputs
from tests.support.oracles.canary import saturate, saturate_terms
from tests.support.programs import graphs


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("wide", [False, True])
def test_a_uop_means_what_its_term_means(seed: int, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 16)
    inputs = random_inputs(graph, rng, specials=seed % 2 == 0)
    expected = values(graph, inputs, wide)
    for name, term in tiny_to_terms(graph):
        assert term.ctor.result is Sort.BUF
        outputs = evaluate(term, inputs, expected, wide)
        assert outputs.shape == expected[name].shape
        assert outputs.dtype == expected[name].dtype
        close = 1e-2 if wide else 1e-6  # a term holds immediates as their dtype does, a wide playback does not
        np.testing.assert_allclose(
            outputs.astype(np.float64), expected[name].astype(np.float64), rtol=close, atol=1e-30, err_msg=str(term)
        )


def test_every_uop_is_a_kernel_of_its_own() -> None:
    terms = tiny_to_terms(graphs.gemm_bias_relu())
    assert all(isinstance(term, App) and term.ctor in (Store, Input) for _, term in terms)
    assert str(terms[0][1]) == "Input(x, fp32[4,8])"
    assert str(terms[-1][1]) == f"Store(Pure(PUn(relu, fp32, Load({terms[-2][0]}, [4,6] -> [i0, i1]))), fp32[4,6])"


@pytest.mark.parametrize("name", ["", "a b", 'quo"te', "back\\slash", "new\nline", "タブ\t", "\\n", "?p", "$call", "("])
def test_any_text_survives(name: str) -> None:
    kernel = Store(Pure(Load(Input(name, "fp32[2]"), "[2] -> [i0]")), "fp32[2]")
    view, _ = saturate_terms([(name, kernel)], ())
    assert [node.name for nodes in view.classes.values() for node in nodes if node.ctor == "Input"] == [name]
    assert quote(name).startswith('"')


@pytest.mark.parametrize("line", ["(nonsense", "(unknown 1)", '(let $x (+ 1 "a"))', '(panic "it happens")'])
def test_what_egglog_refuses_is_an_eqsat_error(line: str) -> None:
    with pytest.raises(EqsatError) as caught:
        EGraph(["(sort S)", line])
    assert caught.value.kind is Kind.UNSOUND_RULE


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_queries_join_classes_and_no_texts(rule: Rule) -> None:
    """A dtype or an identity map is everywhere: joined on, it makes a query's time the square of the e-graph's size."""
    body = Body(rule.lhs, tables(rule.patterns, rule.when))
    for condition in rule.when:
        body.require(condition)
    joined = [fact for fact in body.facts if re.match(r"\(= \?(root|part\d+) |\(P_", fact)]
    for name, var in rule.bound.items():
        if var.sort is Sort.STR:
            assert len(re.findall(rf"\?{name}(?!\w)", " ".join(joined))) <= 1


def test_rules_that_ask_for_the_same_share_a_table() -> None:
    one, other = (rule_named(f"{part}_part_of_all_by_right_weights") for part in ("first", "second"))
    names = [[table.name for table in tables(rule.patterns, rule.when).values()] for rule in (one, other)]
    assert len(names[0]) == 2
    assert len({*names[0], *names[1]}) == 1
    collected = rule_named("collect_left_factor")
    assert len(tables(collected.patterns, collected.when)) == 2
    inlined = rule_named("inline_producer")
    (part,) = tables(inlined.patterns, inlined.when)
    assert part is inlined.lhs.field("buffer"), "a fact is joined with the operand that it speaks of"


def test_tables_join_tables() -> None:
    """A product of which something is asked of either operand: each fills a table, and its own table joins these."""
    rule = rule_named("stack_products_with_right_weights")
    for table in tables(rule.patterns, rule.when).values():
        assert len(table.inner) == 2
        assert [rule.name for rule in table.whole] == [*(rule.name for rule in table.inner), table.name]
        assert sum(fact.startswith("(P_") for fact in table.body) == 2


def test_json_reads_back() -> None:
    view, _ = saturate(graphs.attention(), RULES)
    assert egraph_dump.from_json(json.loads(json.dumps(egraph_dump.to_json(view)))) == view


def test_what_our_functions_raise_is_not_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of ours below egglog reaches the public call, which reports it as ours."""

    def fails(call: str) -> str:
        raise KeyError("lost")

    monkeypatch.setattr("eqsat.egraph.engine.call_primitives", fails)
    with pytest.raises(EqsatError) as caught:
        optimize_and_compile(tensor.input("x", (2, 3)).permute(1, 0).sum(0), threads=1, cache=False)
    assert caught.value.kind is Kind.INTERNAL_ERROR
    assert caught.value.diagnostics[0].stage == "saturate"
    assert isinstance(caught.value.__cause__, KeyError)
