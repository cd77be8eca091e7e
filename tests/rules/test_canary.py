"""The canary of the saturation tests dies of unsound rules."""

from __future__ import annotations

import pytest

from ir.term.language import App, Imm, Input, Load, PBin, Pure, Store
from ir.term.rule import Rule, pattern_variables
from tests.support.oracles.canary import saturate_terms

p, q, b, m, d, k, v = pattern_variables("p:P q:P b:B m:S d:S k:S v:S")

X, Y = (Load(Input(name, "fp32[2]"), "[2] -> [i0]") for name in "xy")
ONE, TWO = (Imm("fp32", text, "[2]") for text in ("1.0", "2.0"))


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        (Rule("numbers", "bad", "v = 1", Imm("fp32", v, k), Imm("fp32", "1.0", k)), (TWO,)),
        (Rule("first", "bad", "p + q = p", PBin("add", d, p, q), p), (PBin("add", "fp32", ONE, X),) * 1),
        (Rule("left", "bad", "p·q = p = q", PBin("mul", d, p, q), q), (PBin("mul", "fp32", X, Y), X, Y)),
    ],
    ids=lambda value: value.name if isinstance(value, Rule) else "",
)
def test_the_canary_dies(rule: Rule, values: tuple[App, ...]) -> None:
    both = Rule("other", "bad", "p ∘ q = p", rule.lhs, p) if rule.name in ("first", "left") else rule
    second = Rule("second", "bad", "p ∘ q = q", rule.lhs, q) if rule.name == "first" else rule
    kernels = [(f"t{n}", Store(Pure(value), "fp32[2]")) for n, value in enumerate(values)]
    rules = list({named.name: named for named in (rule, both, second)}.values())
    with pytest.raises(AssertionError, match="built by"):
        saturate_terms(kernels, rules)


def test_the_canary_lives_where_nothing_is_wrong() -> None:
    kernels = [(f"t{n}", Store(Pure(value), "fp32[2]")) for n, value in enumerate((ONE, TWO, X, Y))]
    empty = [(f"e{text}", Store(Pure(Imm("fp32", text, "[0]")), "fp32[0]")) for text in ("1.0", "2.0")]
    saturate_terms(
        [*kernels, *empty], [Rule("none", "good", "v = v", Imm("fp32", v, "[0]"), Imm("fp32", "1.0", "[0]"))]
    )
