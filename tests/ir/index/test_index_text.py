"""Index expressions as text: what is written says the same, and bounds hold."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.index.expr import AxisExpr, box_of, parse_expr
from ir.index.text import Remainder, Writing, bounds, multiples, pieces

NAMES = ("a", "b")
PYTHON = Writing(lambda number: NAMES[number])
_LEAVES = st.sampled_from(["a", "b", "1", "5"])
_SIZES = st.tuples(st.sampled_from([1, 2, 7, 32]), st.sampled_from([1, 4, 33]))


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    divided = st.tuples(inner, st.sampled_from(["//", "%"]), st.sampled_from([2, 3, 4, 8, 16]))
    return st.one_of(
        st.tuples(inner, inner).map("({0[0]} + {0[1]})".format),
        st.tuples(st.sampled_from([2, 3, 8, -1, -4]), inner).map("({0[0]} * {0[1]})".format),
        divided.map("({0[0]} {0[1]} {0[2]})".format),
    )


EXPRESSIONS = st.recursive(_LEAVES, _grown, max_leaves=6)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, _SIZES)
def test_text_and_bounds(text: str, sizes: tuple[int, int]) -> None:
    expr = parse_expr(text, NAMES, sizes)
    low, high = bounds(expr, box_of(sizes))
    written, placed = PYTHON.text(expr), PYTHON.flat((expr, AxisExpr(3)), (5, 7))
    fours = multiples(expr, 4)
    for a, b in itertools.product(*map(range, sizes)):
        value = expr.eval((a, b))
        assert value == eval(text) == eval(written)
        assert low <= value <= high
        assert eval(placed) == 5 * value + 21
        assert fours.eval((a, b)) % 4 == 0


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a % 4", "a % 4"),
        ("64 * (a % 16) + 16 * (a // 16)", "16*(a//16) + 64*(a % 16)"),
        ("a % 2 + 2 * (b % 4) + 8 * (a // 4 % 8)", "a % 2 + 2*(b % 4) + 8*(a//4 % 8)"),
        ("2 * b - 3", "2*b - 3"),
        ("3 - a", "-a + 3"),
    ],
)
def test_remainders_are_found(text: str, written: str) -> None:
    assert PYTHON.text(parse_expr(text, NAMES, (1024, 16))) == written


def test_wide_products_come_first() -> None:
    wide = Writing(lambda number: NAMES[number], " / ", " * ", "ll")
    assert wide.text(parse_expr("b + 100000 * a", NAMES, (100000, 10))) == "100000ll * a + b"


def test_a_remainder_is_a_sum() -> None:
    _, [(factor, piece)] = pieces(parse_expr("3 * (a % 8)", NAMES, (100, 1)))
    assert factor == 3
    assert isinstance(piece, Remainder)
    assert piece.plain == parse_expr("a % 8", NAMES, (100, 1))
