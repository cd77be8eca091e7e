"""Algebra at its edges: what constants fold to, what is no identity, and that unequal constants never meet."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqsat.egraph.engine import EGraph
from eqsat.egraph.program import program
from eqsat.egraph.saturate import saturate
from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, dtype
from ir.term.language import App, EBin, Imm, Input, Load, PBin, PUn, Pure, Store
from ir.term.rule import Exactness, Rule, pattern_variables
from ir.term.text import number_text
from ir.tiny.graph import Graph
from rules import RULES, select
from rules.constants import (
    all_ones,
    decided,
    exact_reciprocal,
    fold_binary,
    fold_unary,
    is_highest,
    is_lowest,
    negative,
    of_equals,
    opposite,
    power_of_two_mask,
    product_of_divisors,
    reciprocal,
    regroup,
    times,
)
from rules.epilogues import in_epilogue
from rules.index_maps import compared_with_index, compared_with_number, index_and_number, index_as, picked
from rules.primitives import invariant, joined, one_of
from rules.reachable import reachable
from tests.support.fuzz.strategies import random_graph
from tests.support.programs.graphs import Tiny
from tests.support.stages.terms import saturate_terms

X = Load(Input("X", "fp32[4]"), "[4] -> [i0]")


def _number(value: object, element: str = "fp32") -> App:
    return Imm(element, number_text(value, dtype(element)), "[4]")


def _same(left: App, right: App, level: Exactness = Exactness.RANGE, element: str = "fp32") -> bool:
    """Whether all rules together, up to this level, take two values for the same."""
    terms = [(name, Store(Pure(value), f"{element}[4]")) for name, value in (("l", left), ("r", right))]
    view, _ = saturate_terms(terms, RULES, level)
    return view.tiny["l"] == view.tiny["r"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right", "level"),
    [
        (PBin("add", "fp32", X, _number(-0.0)), X, Exactness.EXACT),
        (PBin("add", "fp32", _number(-0.0), X), X, Exactness.EXACT),
        (PBin("add", "fp32", X, _number(0.0)), X, Exactness.ROUNDING),
        (PBin("sub", "fp32", X, _number(0.0)), X, Exactness.EXACT),
        (PBin("sub", "fp32", X, _number(-0.0)), X, Exactness.ROUNDING),
        (PBin("max", "fp32", X, _number(-math.inf)), X, Exactness.EXACT),
        (PBin("fdiv", "fp32", X, _number(4)), PBin("mul", "fp32", X, _number(0.25)), Exactness.EXACT),
        (PBin("fdiv", "fp32", X, _number(3)), PBin("mul", "fp32", X, _number(1 / 3)), Exactness.ROUNDING),
        (PBin("pow", "fp32", X, _number(2)), PBin("mul", "fp32", X, X), Exactness.ROUNDING),
        (PUn("neg", "fp32", PBin("sub", "fp32", _number(0.0), X)), X, Exactness.REASSOCIATE),
    ],
)
def test_an_identity_holds_from_its_level_on(left: App, right: App, level: Exactness) -> None:
    for other in Exactness:
        assert _same(left, right, other) == (other >= level)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (PBin("mul", "fp32", X, _number(0)), _number(0)),
        (PBin("sub", "fp32", X, X), _number(0)),
        (PBin("fdiv", "fp32", X, X), _number(1)),
        (PBin("max", "fp32", X, _number(math.inf)), _number(math.inf)),
        (PBin("min", "fp32", X, _number(-math.inf)), _number(-math.inf)),
        (PUn("exp", "fp32", PUn("log", "fp32", X)), X),
        (PBin("mul", "fp32", PUn("sqrt", "fp32", X), PUn("sqrt", "fp32", X)), X),
        (PUn("sqrt", "fp32", PUn("relu", "fp32", X)), PUn("sqrt", "fp32", X)),
        (_number(1), _number(2)),
        (_number(0.0), _number(-0.0)),
    ],
    ids=str,
)
def test_what_nan_or_a_sign_forbids_holds_at_no_level(left: App, right: App) -> None:
    assert not _same(left, right)


def test_integers_have_zeros_and_inverses() -> None:
    x = Load(Input("X", "i32[4]"), "[4] -> [i0]")
    zero = _number(0, "i32")
    assert _same(PBin("mul", "i32", x, zero), zero, Exactness.EXACT, "i32")
    assert _same(PBin("sub", "i32", x, x), zero, Exactness.EXACT, "i32")
    assert _same(PBin("add", "i32", PBin("sub", "i32", x, _number(7, "i32")), _number(7, "i32")), x, element="i32")


@pytest.mark.parametrize("seed", range(12))
def test_unequal_constants_never_meet(seed: int) -> None:
    """A canary: two numbers in one class would make all numbers equal."""
    view, _ = saturate(random_graph(np.random.default_rng(seed)), RULES, Exactness.RANGE)
    for nodes in view.classes.values():
        assert len({(node.dtype, node.number) for node in nodes if node.ctor == "Imm"}) <= 1


@pytest.mark.parametrize("element", DTYPES)
def test_the_ends_of_a_dtype(element: str) -> None:
    held = dtype(element)
    lowest, highest = number_text(held.lowest, held), number_text(held.highest, held)
    assert is_lowest.fn(element, lowest)
    assert is_highest.fn(element, highest)
    assert not is_lowest.fn(element, highest)
    assert bool(all_ones.fn(element, number_text(-1, held))) != held.is_float
    assert decided.fn("cmplt", element, lowest) == decided.fn("cmpgt", element, highest) == "false"
    assert decided.fn("cmpge", element, lowest) == ("" if held.is_float else "true"), "NaN is not above −inf"


def test_constants_fold_as_their_dtypes_round() -> None:
    assert fold_binary.fn("add", "i8", "i8", "127", "1") == "-128"
    assert fold_binary.fn("add", "fp16", "fp16", "2048.0", "1.0") == "2048.0"
    assert fold_binary.fn("cmplt", "bool", "fp32", "nan", "1.0") == "false"
    assert fold_unary.fn("cast", "i8", "fp32", "300.0") == "127"
    assert negative.fn("u8", "1") == "255"
    assert regroup.fn("mul", "fp32", "1e-30", "1e-30") == "", "a denormal has lost digits"
    assert regroup.fn("mul", "fp32", "1e+30", "1e+30") == ""
    assert regroup.fn("add", "fp32", "1.0", "-1.0") == ""
    assert exact_reciprocal.fn("fp32", "-8.0") == "-0.125"
    assert exact_reciprocal.fn("fp32", "3.0") == ""
    assert exact_reciprocal.fn("fp32", number_text(2.0**127, dtype("fp32"))) == "", "its reciprocal is denormal"
    assert exact_reciprocal.fn("fp32", "inf") == exact_reciprocal.fn("fp32", "0.0") == ""
    assert reciprocal.fn("fp32", "0.0") == reciprocal.fn("fp32", "inf") == reciprocal.fn("fp32", "nan") == ""
    assert power_of_two_mask.fn("8") == "7"
    assert power_of_two_mask.fn("6") == power_of_two_mask.fn("0") == power_of_two_mask.fn("-8") == ""
    assert product_of_divisors.fn("i8", "16", "8") == "", "128 is no i8"
    assert product_of_divisors.fn("i8", "-2", "3") == ""
    assert times.fn("3", "[2,100]", "i8") == str(600 - 512)
    assert times.fn("9223372036854775807", "[2]", "i64") == "-2"
    assert times.fn("inf", "[0]", "fp32") == "0.0", "the sum of nothing"
    assert of_equals.fn("cmpeq", "fp32") == of_equals.fn("sub", "fp32") == "", "NaN"
    assert opposite.fn("cmplt", "fp32") == ""
    assert opposite.fn("cmplt", "i32") == "cmpge"


def test_indices_stay_coordinates_that_their_dtype_holds() -> None:
    row = "[4,8] -> [i0]"
    assert index_and_number.fn("mul", row, "i32", "3") == "[4,8] -> [3*i0]"
    assert index_and_number.fn("add", row, "i32", "-1") == "", "−1 is no coordinate"
    assert index_and_number.fn("mul", row, "i8", "64") == "", "192 is no i8"
    assert index_and_number.fn("mul", row, "fp32", "0.5") == ""
    assert index_and_number.fn("idiv", row, "i32", "0") == ""
    assert index_as.fn("[3000] -> [i0]", "i32", "fp16") == "", "2049 is no fp16"
    assert index_as.fn("[2049] -> [i0]", "i32", "fp16")
    assert compared_with_number.fn("cmplt", row, "i32", "4") == "true"
    assert compared_with_number.fn("cmplt", row, "i32", "3") == ""
    assert compared_with_number.fn("cmpgt", row, "fp32", "nan") == ""
    assert compared_with_index.fn("cmple", "[4] -> [i0]", "[4] -> [i0 + 1]", "i32") == "true"
    assert picked.fn("[4,7] -> [i1]", "[4] -> [2*i0]", "i32") == "[4] -> [2*i0]"
    assert picked.fn("[4,6] -> [i1]", "[4] -> [2*i0]", "i32") == "", "the last one is clamped"


def test_axes_of_reductions() -> None:
    assert joined.fn("[4]", "[5,6]") == "[4,5,6]"
    assert invariant.fn("[4,5] -> [i0]", "[5]") == "[4] -> [i0]"
    assert invariant.fn("[4,5] -> [i1]", "[5]") == ""
    assert invariant.fn("[4,0] -> [0]", "[0]") == "", "a sum of nothing is 0, whatever the factor"


def test_a_rule_for_values_serves_epilogues() -> None:
    p, d = pattern_variables("p:P d:S")
    e = pattern_variables("p:E")[0]
    one = Imm(d, "1.0", "[4]")
    rule = in_epilogue(Rule("one", "mine", "p·1 = p", PBin("mul", d, p, one), p))
    assert rule == Rule("one_epilogue", "epilogues", "p·1 = p", EBin("mul", d, e, Pure(one)), e)
    with pytest.raises(TypeError, match="no Load"):
        in_epilogue(Rule("load", "mine", "", PBin("mul", d, X, p), p))


def _programs() -> list[Graph]:
    t = Tiny()
    x = t.input("x", 4, 6)
    masked = t.op("WHERE", t.op("NOT", t.op("CMPEQ", x, 0.0)), t.op("NEG", t.op("NEG", x)), 1.0)
    return [
        t.graph(t.reduce("SUM", t.op("FDIV", masked, 3.0), 1)),
        *(random_graph(np.random.default_rng(seed)) for seed in range(6)),
    ]


@pytest.mark.parametrize("graph", _programs())
def test_rules_that_are_left_out_would_not_have_fired(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = select()
    few, stats = saturate(graph, rules)
    monkeypatch.setattr("eqsat.egraph.saturate.reachable", lambda rules, terms: tuple(rules))
    _, every = saturate(graph, rules)
    assert {k: n for k, n in stats.matches.items() if n} == {k: n for k, n in every.matches.items() if n}
    assert stats.nodes == every.nodes
    assert few.classes


def test_a_rule_is_reachable_through_another() -> None:
    p, d = pattern_variables("p:P d:S")
    first = Rule("first", "mine", "", PUn("neg", d, p), PUn("abs", d, p))
    second = Rule("second", "mine", "", PUn("abs", d, p), PUn("cos", d, p))
    third = Rule("third", "mine", "", PUn("sin", d, p), p)
    o = pattern_variables("o:S")[0]
    choice = Rule("choice", "mine", "", PUn(o, d, p), p, (one_of(o, "cos tanh"),))
    rules = (choice, third, second, first)
    assert reachable(rules, [PUn("neg", "fp32", X)]) == (choice, second, first)
    assert reachable(rules, [X]) == ()


@pytest.mark.slow
def test_every_rule_is_text_that_the_engine_takes() -> None:
    EGraph(program(RULES))
    with pytest.raises(EqsatError):
        EGraph(program((RULES[0], RULES[0])))
