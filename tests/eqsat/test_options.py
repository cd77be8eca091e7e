"""The keywords of the public calls: what is no choice is InvalidOption and says what there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.cost.roofline import ALL_TERMS, Terms
from eqsat.options import Budget, Options, check_options, check_threads, exactness_named
from ir.diagnostics import EqsatError, Kind
from ir.term.language import Imm, PBin, Primitive, PView
from ir.term.rule import Equal, Exactness, Rule, pattern_variables
from rules import RULES, select, users
from rules.words import check_words

DEFAULTS: dict[str, Any] = {
    "rules": None,
    "exactness": "rounding",
    "extractor": "pareto",
    "cost_model": "roofline",
    "budget": None,
}


@pytest.fixture(scope="module")
def program() -> Program:
    return optimize_and_compile(t.input("x", (3,)) + 1, threads=1)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(EqsatError) as caught:
        call()
    assert caught.value.kind is Kind.INVALID_OPTION, str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("rules", 3, "fusion"),
        ("rules", ["fushion"], "fusion"),
        ("rules", [["fusion"]], "fusion"),
        ("rules", np.array("fusion"), "movement"),
        ("exactness", "roughly", "reassociate"),
        ("exactness", [], "reassociate"),
        ("exactness", None, "reassociate"),
        ("extractor", "magic", "greedy"),
        ("extractor", [], "greedy"),
        ("cost_model", "guess", "roofline"),
        ("cost_model", {}, "launch"),
        ("cost_model", "launch", "-launch"),
        ("cost_model", ["-launch", "-nothing"], "-fanout"),
        ("budget", 3, "Budget"),
        ("budget", Budget(nodes="a"), "nodes"),  # type: ignore[arg-type]
        ("budget", Budget(nodes=-1), "nodes"),
        ("budget", Budget(iterations=2.5), "iterations"),  # type: ignore[arg-type]
        ("budget", Budget(copies=None), "copies"),  # type: ignore[arg-type]
        ("budget", Budget(seconds=-1.0), "seconds"),
        ("budget", Budget(seconds=float("nan")), "seconds"),
        ("budget", Budget(seconds="soon"), "seconds"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_choice_is_refused(option: str, value: Any, word: str) -> None:
    assert word in refused(lambda: check_options(**{**DEFAULTS, option: value}))


def test_budget_is_public() -> None:
    import eqsat

    assert eqsat.Budget is Budget
    assert "eqsat.Budget(nodes=" in refused(lambda: check_options(None, "rounding", "pareto", "roofline", 3))  # type: ignore[arg-type]


def test_choices_are_kept() -> None:
    assert check_options(**DEFAULTS) == Options()
    terms = Terms(launch=False)
    chosen = check_options("fusion", Exactness.EXACT, "greedy", terms, Budget(nodes=5, seconds=0.5))
    assert chosen == Options(("fusion",), Exactness.EXACT, "greedy", terms, Budget(nodes=5, seconds=0.5))
    assert check_options(["fusion", "casts"], "exact", "tree", "roofline", None).rules == ("fusion", "casts")
    assert check_options(**DEFAULTS).cost_model == ALL_TERMS
    without = check_options(**{**DEFAULTS, "cost_model": ["-launch", "-fanout"]})
    assert without.cost_model == Terms(launch=False, fanout=False)
    assert check_options(**{**DEFAULTS, "cost_model": "-cache"}).cost_model == Terms(cache=False)
    assert exactness_named("reassociate") is Exactness.REASSOCIATE
    assert (check_threads(None, 7), check_threads(np.int64(2), 7)) == (7, 2)


def test_the_public_calls_refuse_what_is_no_option(program: Program, tmp_path: Path) -> None:
    source = t.input("x", (3,)) + 1
    keywords: dict[str, Any]
    for keywords in (
        {"threads": 0},
        {"threads": True},
        {"threads": "two"},
        {"verify": "yes"},
        {"strict": None},
        {"cache": np.ones(2)},
        {"progress": 3},
        {"constants": [1]},
        {"constants": 0},
    ):
        (name,) = keywords
        assert name in refused(partial(optimize_and_compile, source, **keywords))
    assert "repeats" in refused(lambda: program.profile(np.ones(3, np.float32), repeats="x"))  # type: ignore[arg-type]
    path: Any
    for path in (None, 3, "", "a\0b"):
        refused(partial(eqsat.load, path))
        refused(partial(program.save, path))
    refused(lambda: program.save(tmp_path))
    assert "plan" in refused(lambda: program.dump("plans"))
    refused(lambda: program.dump([]))  # type: ignore[arg-type]
    refused(lambda: program.random_inputs("x"))  # type: ignore[arg-type]


p, q, r, d = pattern_variables("p:P q:P r:P d:S")
FACTOR_OUT = Rule(
    "factor_out", "mine", "p·r + q·r = (p + q)·r",
    PBin("add", d, PBin("mul", d, p, r), PBin("mul", d, q, r)), PBin("mul", d, PBin("add", d, p, q), r),
    exactness=Exactness.REASSOCIATE,
)  # fmt: skip


def matched(rules: Any, **keywords: Any) -> dict[str, int]:
    x, y = t.input("x", (3,)), t.input("y", (3,))
    program = optimize_and_compile(x * 2 * y + x * y, rules=rules, threads=1, **keywords)
    ones = np.ones(3, np.float32)
    assert np.array_equal(program(x=ones, y=ones), 3 * ones)
    return dict(program.stats.saturation.matches)


@pytest.mark.slow
def test_rules_can_be_left_out_and_added() -> None:
    everything = set(matched(None))
    assert set(matched(["-fusion"])) == {rule.name for rule in select() if rule.family != "fusion"}
    assert everything - set(matched(["-fuse_epilogue", "-casts"])) >= {"fuse_epilogue", "identity_cast"}
    assert set(matched(["movement", "-compose_load"])) == {
        rule.name for rule in select(["movement"]) if rule.name != "compose_load"
    }
    assert matched([FACTOR_OUT])["factor_out"] > 0
    assert set(matched([FACTOR_OUT])) == everything | {"factor_out"}
    assert set(matched(["movement", FACTOR_OUT])) == {rule.name for rule in select(["movement"])} | {"factor_out"}
    assert not matched([])


@pytest.mark.slow
def test_rules_of_ones_own_can_be_left_out() -> None:
    everything = set(matched(None))
    assert set(matched([FACTOR_OUT, "-factor_out"])) == everything
    assert set(matched([FACTOR_OUT, f"-{FACTOR_OUT.family}", "-fusion"])) == set(matched(["-fusion"]))
    refused(lambda: matched(["-factor_out"]))


@pytest.mark.slow
def test_no_two_rules_have_one_name() -> None:
    other = replace(FACTOR_OUT, equation="(p + q)·r")
    assert "two rules are named factor_out" in refused(lambda: matched([FACTOR_OUT, other]))
    assert matched([FACTOR_OUT, FACTOR_OUT])["factor_out"] > 0


def test_rules_that_are_none_are_refused() -> None:
    assert "fuse_epilogue" in refused(lambda: matched(["-fuse_epilog"]))
    assert "already" in refused(lambda: matched([replace(FACTOR_OUT, name="fuse_epilogue")]))
    assert 'exactness="range"' in refused(lambda: matched([replace(FACTOR_OUT, exactness=Exactness.RANGE)]))
    refused(lambda: matched(["factor_out@0123456789abcdef"]))


UNSOUND = {
    "two sides that differ": (replace(FACTOR_OUT, rhs=PBin("mul", d, PBin("sub", d, p, q), r)), "differ"),
    "no instances": (replace(FACTOR_OUT, when=(Equal(d, "never"),)), "cannot be checked"),
    "an ill-typed side": (replace(FACTOR_OUT, rhs=PBin("mul", "fp32", PBin("add", "fp32", p, q), r)), "means nothing:"),
    "a constant that fits one shape": (replace(FACTOR_OUT, rhs=Imm(d, "1.0", "[3]")), "the right side"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "says"), UNSOUND.values(), ids=UNSOUND.keys())
def test_an_unsound_rule_is_refused_with_a_counterexample(
    rule: Rule, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rules.users.ATTEMPTS", 1000)
    with pytest.raises(EqsatError) as caught:
        matched([rule])
    assert caught.value.kind is Kind.UNSOUND_RULE
    assert says in str(caught.value)
    assert "lhs = PBin(" in str(caught.value)


def test_ops_and_dtypes_that_are_none_are_named() -> None:
    for lhs, says in (
        (PBin("div", d, PBin("mul", d, p, r), q), "PBin takes no op 'div'\n    try: idiv, fdiv"),
        (PBin("exp", d, PBin("mul", d, p, r), q), "PBin takes no op 'exp'"),
        (PBin("add", "fp23", PBin("mul", d, p, r), q), "PBin takes no dtype 'fp23'\n    try: fp32"),
        (PBin("add", d, PBin("mul", d, p, r), Imm(d, "two", "[3]")), "Imm takes no value 'two'"),
        (PBin("add", d, PBin("mul", d, p, r), PView(q, "nonsense")), "rule `factor_out`): not a map: 'nonsense'"),
    ):
        with pytest.raises(EqsatError) as caught:
            matched([replace(FACTOR_OUT, lhs=lhs, rhs=p)])
        assert "factor_out" in str(caught.value)
        assert says in str(caught.value)
    for rule in RULES:
        check_words(rule)
    for field in ({"exactness": "reassociate"}, {"exactness": 1}, {"equation": 3}):
        with pytest.raises(TypeError, match="factor_out"):
            replace(FACTOR_OUT, **field)


def _five(_: str) -> int:
    return 5


def _nothing(_: str) -> None:
    return None


def _raises(text: str) -> str:
    raise KeyError(text)


@pytest.mark.parametrize(
    ("primitive", "says"),
    [
        (_five, "the primitive _five answered 5, an int"),
        (_nothing, "the primitive _nothing answered None, a NoneType"),
        (_raises, "the primitive _raises failed: KeyError"),
    ],
)
def test_a_primitive_that_answers_no_text_is_named_beside_its_rule(primitive: Any, says: str) -> None:
    ask = Primitive(primitive)
    for change in ({"rhs": PBin("mul", ask(d), PBin("add", d, p, q), r)}, {"when": (ask(d),)}):
        with pytest.raises(EqsatError) as caught:
            matched([replace(FACTOR_OUT, **change)])
        assert says in str(caught.value)
        assert "rule `factor_out`" in str(caught.value)


@pytest.mark.slow
def test_a_counterexample_is_small_and_whole() -> None:
    with pytest.raises(EqsatError) as caught:
        matched([UNSOUND["two sides that differ"][0]])
    details = caught.value.diagnostics[0].details
    assert {"lhs", "rhs", "left", "right", "differs_at", "inputs"} <= details.keys()
    assert details["lhs"].count("(") < 12
    assert "float32" not in str(caught.value)


@pytest.mark.slow
def test_a_rule_of_ones_own_is_a_part_of_the_artifacts_key() -> None:
    keys = []
    for rule in (FACTOR_OUT, replace(FACTOR_OUT, equation="(p + q)·r"), replace(FACTOR_OUT, family="yours")):
        chosen = check_options(**{**DEFAULTS, "rules": [rule]})
        assert select(chosen.rules)[-1] == rule
        keys.append(chosen.rules)
    assert len(set(keys)) == 3


@pytest.mark.slow
def test_a_saved_program_does_not_bring_its_callers_rules(tmp_path: Path) -> None:
    program = optimize_and_compile(t.input("x", (3,)) + 1, rules=[FACTOR_OUT], threads=1)
    program.save(tmp_path / "saved")
    loaded = eqsat.load(tmp_path / "saved")
    assert loaded.dump("egraph", as_json=True) == program.dump("egraph", as_json=True)
    users._ADMITTED.clear()
    assert "factor_out" in refused(lambda: loaded.dump("egraph", as_json=True))
