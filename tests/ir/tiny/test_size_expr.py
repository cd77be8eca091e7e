"""Expressions of sizes: what a text means, and how an expression is written."""

from __future__ import annotations

import pytest

from ir.tiny.size_expr import SizeExpr, parse_size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("P", 5),
        ("P + 1", 6),
        (" 2*P - S ", 7),
        ("(P + S)*3", 24),
        ("-S + 10", 7),
        ("8", 8),
        ("P - P", 0),
        ("P*S", 15),
        ("(P + 1)*(S - 1)", 12),
    ],
)
def test_a_text_is_an_expression(text: str, value: int) -> None:
    expr = parse_size(text)
    assert expr is not None
    assert expr.at({"P": 5, "S": 3}) == value


@pytest.mark.parametrize("text", ["", "P +", "P / 2", "P // 2", "f(P)", "1.5", "True", "P; S", "P if S else 1"])
def test_other_texts_are_none(text: str) -> None:
    assert parse_size(text) is None


def test_an_expression_is_written_as_people_do() -> None:
    assert str(parse_size("2*P + 1")) == "2·P + 1"
    assert str(parse_size("P - 3")) == "P - 3"
    assert str(parse_size("P - P")) == "0"
    assert str(parse_size("S*P*2 + P*S")) == "3·P·S"
    assert str(SizeExpr(0, ((("S",), 1),), inverted=True)) == "1 / (S)"
