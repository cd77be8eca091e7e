"""Indices in C: the texts have the values of the expressions, for one element and in every lane."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from codegen.text.index_to_c import IndexToC
from eqsat import optimize_and_compile, tensor
from ir.index.expr import parse_expr
from ir.kernel.nodes import Variable, Within

SIZES = (5, 40)
NAMES = ("i", "j")


def value(text: str, **numbers: int) -> int:
    """The value of a C expression on numbers of which none is negative before a division."""
    return int(eval(text.replace("(int)", "").replace("/", "//").replace("&&", "and"), {}, numbers))


@pytest.mark.parametrize(
    "expr", ["3*i0 + i1 - 7*(i1//7)", "(39*i0 + i1)//40", "2*((i0 + 2*i1)//15) - i0 + 4", "i1//3//2"]
)
@pytest.mark.parametrize("most", [1, 1 << 30])
def test_every_lane_has_the_value_of_the_expression(expr: str, most: int) -> None:
    parsed = parse_expr(expr, ["i0", "i1"], SIZES)
    to_c = IndexToC([Variable(name, 0, most * size) for name, size in zip(NAMES, SIZES, strict=True)], NAMES, 8)
    condition = Within(parsed, 3, 9)
    for i, j in product(range(SIZES[0]), range(0, SIZES[1], 8)):
        assert value(to_c.of(parsed), i=i, j=j) == eval(expr, {}, {"i0": i, "i1": j})
        for lane in range(8):
            expected = eval(expr, {}, {"i0": i, "i1": j + lane})
            assert value(to_c.each_lane(parsed, 1), i=i, j=j, l=lane) == expected
            assert value(to_c.within(condition, 1), i=i, j=j, l=lane) == (3 <= expected < 9)


def test_lanes_share_a_division_where_a_quotient_grows_by_at_most_one() -> None:
    variables = [Variable(name, 0, 1000) for name in NAMES]
    skewed = parse_expr("(767*i0 + i1)//768", ["i0", "i1"], (256, 1000))
    shared = "(767 * (int)i + (int)j) / 768 + ((767 * (int)i + (int)j) % 768 + l >= 768)"
    assert IndexToC(variables, NAMES, 8).each_lane(skewed, 1) == shared
    assert IndexToC(variables, NAMES, 1024).each_lane(skewed, 1) == "(767 * (int)i + ((int)j + l)) / 768"


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(0, 1), (1, 0), (5, 0), (2, 3)])
@pytest.mark.parametrize("shape", [(3, 17), (9, 40), (64, 129), (2, 8)])
def test_sheared_rows(shape: tuple[int, int], sides: tuple[int, int]) -> None:
    """Rows that are padded and cut anew, as in attention with relative positions: elements lie further to one side in
    each row."""
    rows, columns = shape
    given = np.random.default_rng(columns).normal(size=shape).astype("f4")
    x = tensor.input("x", shape)
    sheared = x.pad([(0, 0), sides]).reshape(-1)[: rows * columns].reshape(rows, columns)
    result = optimize_and_compile(sheared * 2.0 + x, cache=False)(given)
    expected = np.pad(given, [(0, 0), sides]).reshape(-1)[: rows * columns].reshape(rows, columns) * 2 + given
    np.testing.assert_array_equal(result, expected)
