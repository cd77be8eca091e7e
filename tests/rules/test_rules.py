"""Rules as data: what is checked when one is written, how they are chosen, what their primitives answer."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from eqsat.egraph.program import program_text
from ir.diagnostics import EqsatError, Kind
from ir.term.language import App, Imm, Input, Load, PBin, Primitive, PUn, Pure, PView, Store
from ir.term.rule import Equal, Exactness, Rule, pattern_variables
from rules import FAMILIES, PHASES, RULES, rule_named, select
from rules.analyses import ProDtype
from rules.equations import equation
from rules.op_fills import Number, Operand, preimage
from rules.primitives import (
    accumulates,
    compose,
    fill_beside,
    fill_everywhere,
    fill_of_reduction,
    fill_of_unary,
    reads_all,
    repeats,
    widening_cast,
    without_repeats_sizes,
    without_units,
)
from rules.sides import SIDES, mirror
from tests.support.stages.terms import saturate_terms

p, q, e, m, n, o, d = pattern_variables("p:P q:P e:E m:S n:S o:S d:S")
PADDED = "[6] -> [i0 - 1] if 1<=i0<5 else 0"


def test_names_are_unique_and_every_family_has_a_phase() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {family for phase in PHASES for family in phase} == set(FAMILIES)


@pytest.mark.parametrize("spec", ["p", "p:Z", "p:", ":P", "p:P q", "p:P:S", "a-b:P"])
def test_pattern_variables_are_names_with_letters(spec: str) -> None:
    with pytest.raises(EqsatError, match="is no pattern variable"):
        pattern_variables(spec)


def test_select_keeps_what_is_exact_enough() -> None:
    exact = select(exactness=Exactness.EXACT)
    assert exact
    assert all(rule.exactness is Exactness.EXACT for rule in exact)
    assert "sum_of_products" in {rule.name for rule in select(["contraction"], Exactness.REASSOCIATE)}
    assert "sum_of_narrow_products" not in {rule.name for rule in select(None, Exactness.REASSOCIATE)}
    with pytest.raises(EqsatError, match="no family 'magic'"):
        select(["magic"])


def test_a_rule_is_checked_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="Pro"):
        Rule("bad", "bad", "", Pure(p), p)
    with pytest.raises(TypeError, match="got an Epi"):
        PView(e, m)
    with pytest.raises(TypeError):
        compose(m)
    with pytest.raises(TypeError, match="texts"):
        compose(m, p)
    for condition in ("m = n", lambda m: True, p):
        with pytest.raises(TypeError, match="no condition"):
            Rule("bad", "bad", "", p, PView(p, m), when=(condition,))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="two sorts"):
        Rule("bad", "bad", "", PView(p, pattern_variables("p:S")[0]), p)
    with pytest.raises(EqsatError) as unbound:
        Rule("bad", "bad", "", PView(p, m), q)
    assert unbound.value.kind is Kind.UNSOUND_RULE
    with pytest.raises(EqsatError, match="cannot call"):
        Rule("bad", "bad", "", PView(p, compose(m, m)), p)
    with pytest.raises(EqsatError, match="no name"):
        Rule("Bad Name", "bad", "", PView(p, m), p)
    with pytest.raises(TypeError, match="importable"):
        Primitive(lambda text: text)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_equation_is_what_the_terms_say(family: str) -> None:
    """The equation that is printed from the two sides, alone or with a remark after a comma."""
    said = {rule.name: (rule.equation, equation(rule)) for rule in FAMILIES[family]}
    assert not {name: both for name, both in said.items() if not f"{both[0]}, ".startswith(f"{both[1]}, ")}


def test_a_wrong_equation_is_noticed() -> None:
    rule = rule_named("negative_plus")
    assert rule.equation == "(−p) + q = q − p"
    for other in (replace(rule, rhs=PBin("sub", d, p, q)), replace(rule, rhs=PBin("add", d, q, p)),
                  replace(rule, exactness=Exactness.ROUNDING)):  # fmt: skip
        assert equation(other) != rule.equation


def test_the_mirror_image_of_a_mirror_image_is_the_rule() -> None:
    twins = [rule_named(f"collect_{side}_factor") for side in SIDES]
    assert twins[0].equation == "A·X ± A·Y ≈ A·(X ± Y)"
    assert twins[1].equation == "X·A ± Y·A ≈ (X ± Y)·A"
    assert mirror(twins[1].lhs) == twins[0].lhs
    assert mirror(twins[1].rhs) == twins[0].rhs


def test_a_rule_reads_as_text() -> None:
    rule = next(rule for rule in RULES if rule.name == "compose_load")
    assert str(rule) == (
        "compose_load (movement, exact): PView(Load(T, m), n) → Load(T, compose(m, n))  when Computed(T)"
    )
    text = program_text(RULES)
    (table,) = set(re.findall(r"\(rule \(\((P_\w+) \?part1 \?T \?m\) \(= \?root \(PView \?part1 \?n\)\) ", text))
    assert f"((= ?root (Load ?x0 ?x1)) (Computed ?x0)) (({table} ?root ?x0 ?x1))" in text


def _answer(value: str) -> str:
    if value == "1.0":
        raise ZeroDivisionError("one is not liked")
    return value.replace("2.0", "3.0")


answer = Primitive(_answer)


def test_a_users_family_joins_the_last_phase_and_its_errors_arrive() -> None:
    two = Imm(d, m, n)
    rule = Rule("two_is_three", "mine", "2 = 3", two, Imm(d, answer(m), n), (Equal(ProDtype(two), d),))
    kernel = Store(Pure(Imm("fp32", "2.0", "[4]")), "fp32[4]")
    view, stats = saturate_terms([("x", kernel)], [*RULES, rule])
    assert stats.phases[-1].families[-1] == "mine"
    assert {node.number for nodes in view.classes.values() for node in nodes if node.ctor == "Imm"} == {"2.0", "3.0"}
    failing = Store(Pure(Imm("fp32", "1.0", "[4]")), "fp32[4]")
    with pytest.raises(EqsatError, match="one is not liked"):
        saturate_terms([("x", failing)], [rule])


def test_a_rule_that_mixes_dtypes_contradicts_an_analysis() -> None:
    rule = Rule("forget", "bad", "cast(p) = p", PUn("cast", d, p), p)
    read = Load(Input("X", "fp16[2]"), "[2] -> [i0]")
    kernel = Store(Pure(PUn("cast", "fp32", read)), "fp32[2]")
    with pytest.raises(EqsatError) as caught:
        saturate_terms([("x", kernel)], [rule])
    assert caught.value.kind is Kind.UNSOUND_RULE


@pytest.mark.parametrize(
    ("op", "result", "fill", "operands", "expected"),
    [
        ("relu", "fp32", 0, (("fp32", None),), (0,)),
        ("exp", "fp32", 0, (("fp32", None),), (-math.inf,)),
        ("exp", "fp32", 0.5, (("fp32", None),), None),
        ("neg", "fp32", 0, (("fp32", None),), (-0.0,)),
        ("recip", "fp32", math.inf, (("fp32", None),), (0,)),
        ("add", "fp32", 1, (("fp32", None), ("fp32", None)), (1, 0)),
        ("mul", "fp32", 0, (("fp32", None), ("fp32", None)), (0, 0)),
        ("mul", "fp32", 0, (("fp32", None), ("fp32", math.inf)), None),
        ("mul", "fp32", 0, (("fp32", None), ("fp32", -2.0)), (-0.0, -2.0)),
        ("add", "i32", 0, (("i32", None), ("i32", 7)), (-7, 7)),
        ("add", "u8", 0, (("u8", None), ("u8", 7)), None),
        ("max", "fp32", -math.inf, (("fp32", None), ("fp32", None)), (-math.inf, -math.inf)),
        ("cast", "i32", 3, (("fp16", None),), (3,)),
        ("cast", "fp64", 0.1, (("fp16", None),), None),
        ("cmplt", "bool", 1, (("fp32", None), ("fp32", None)), (1, math.inf)),
        ("sqrt", "fp32", math.nan, (("fp32", None),), (math.nan,)),
    ],
)
def test_what_an_op_takes_to_a_fill(
    op: str, result: str, fill: Number, operands: tuple[Operand, ...], expected: tuple[Number, ...] | None
) -> None:
    assert repr(_floats(preimage(op, result, fill, operands))) == repr(_floats(expected))


def test_the_signs_of_zeros_are_told_apart_whatever_was_asked_before() -> None:
    for zero in (-0.0, 0.0, -0.0):
        beside = preimage("fdiv", "fp32", math.inf, (("fp32", None), ("fp32", zero)))
        assert beside is not None
        assert math.copysign(1, beside[0]) == math.copysign(1, zero)
        same = preimage("where", "fp32", zero, (("bool", None), ("fp32", None), ("fp32", None)))
        assert same is not None
        assert math.copysign(1, same[2]) == math.copysign(1, zero)


def _floats(numbers: tuple[Number, ...] | None) -> list[float] | None:
    return None if numbers is None else [float(number) for number in numbers]


def test_primitives_at_their_edges() -> None:
    assert reads_all.fn("[1,3] -> [0, i1]", "fp32[1,3]")
    assert not reads_all.fn("[1,3] -> [0, i1]", "fp32[2,3]"), "the first row is not the whole"
    assert fill_of_unary.fn(PADDED, "exp", "fp32", "fp32") == PADDED.replace("else 0", "else -inf")
    assert fill_of_unary.fn(PADDED, "cos", "fp32", "fp32") == ""
    assert fill_beside.fn(PADDED, "fdiv", "fp32", "fp32", "0.0", "1") == "", "0/0 is NaN, not the fill"
    assert fill_of_reduction.fn(PADDED, "sum", "fp32", "[2]", "fp32")
    assert fill_of_reduction.fn(PADDED.replace("else 0", "else 1"), "sum", "fp32", "[2]", "fp32") == ""
    assert fill_of_reduction.fn(PADDED.replace("else 0", "else 1"), "max", "fp32", "[2]", "fp32")
    assert fill_of_reduction.fn(PADDED.replace("else 0", "else 1"), "max", "fp32", "[0]", "fp32") == ""
    assert fill_of_reduction.fn(PADDED.replace("else 0", "else 0.1"), "max", "fp32", "[2]", "fp16") == ""
    assert fill_everywhere.fn(PADDED, "fp32") == "", "it reads something"
    assert fill_everywhere.fn("[2] -> [0] if false else 0.1", "fp16") == "0.0999755859375"
    assert fill_everywhere.fn("[0] -> [i0]", "fp32") == ""
    assert without_units.fn("[4,1,3] -> [i0, 0, i2]", "[1,3]") == "[4,3] -> [i0, 0, i1]"
    assert without_repeats_sizes.fn("[4,5,3] -> [i0, i2]", "[5,3]") == "[3]"
    assert without_repeats_sizes.fn("[4,0,3] -> [0, 0]", "[0,3]") == "", "the sum of nothing repeats nothing"
    assert repeats.fn("[4,5] -> [i0]", "[5]", "fp32") == "5.0"
    assert repeats.fn("[4,5000] -> [i0]", "[5000]", "bf16") == "", "5000 is no bf16"
    assert widening_cast.fn("fp16", "fp32")
    assert widening_cast.fn("u8", "i16")
    assert not widening_cast.fn("u8", "i8")
    assert not widening_cast.fn("bf16", "fp16")
    assert not widening_cast.fn("i8", "fp32")
    assert accumulates.fn("fp16", "fp16")
    assert not accumulates.fn("fp64", "fp32")
    assert not accumulates.fn("i8", "i32"), "an integer product wraps"


def test_terms_are_equal_by_structure() -> None:
    one = PBin("add", "fp32", Load(Input("x", "fp32[2]"), "[2] -> [i0]"), Imm("fp32", "1.0", "[2]"))
    assert one == PBin("add", "fp32", *one.operands)
    assert isinstance(one, App)
    assert str(one).startswith("PBin(add, fp32, Load(Input(x, fp32[2])")
