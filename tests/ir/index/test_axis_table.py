"""Expressions over small boxes: their values decide their spelling."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.index import moves as axis_moves
from ir.index.expr import AxisExpr, axis, box_of, floordiv, weighted_sum
from ir.index.linear import FloorDiv
from ir.index.map import AxisMap, apply, compose
from ir.index.table import respell

SIZES = (4, 6)
BOX = box_of(SIZES)


def raw_floor(expr: AxisExpr, divisor: int) -> AxisExpr:
    """A floor that nothing has simplified."""
    return AxisExpr(0, ((FloorDiv(expr, divisor), 1),))


numerators = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)).filter(
    lambda terms: terms[0] + terms[1]
)
floors = st.tuples(numerators, st.integers(2, 9), st.integers(-3, 3))


@given(st.lists(floors, min_size=2, max_size=5), st.integers(-4, 4), st.integers(-4, 4))
def test_the_values_stay(parts: list[tuple[tuple[int, int, int], int, int]], a: int, b: int) -> None:
    terms = [(axis(0, BOX), a), (axis(1, BOX), b)]
    for (c0, c1, const), divisor, weight in parts:
        numerator = weighted_sum(const, [(axis(0, BOX), c0), (axis(1, BOX), c1)])
        terms.append((raw_floor(numerator, divisor), weight))
    expr = weighted_sum(1, terms)
    grid = np.ix_(*(np.arange(size) for size in SIZES))
    one, other = np.broadcast_arrays(expr.eval(grid), respell(expr, BOX).eval(grid))
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (weighted_sum(0, [(raw_floor(axis(0, BOX) * 2, 2), 1), (raw_floor(axis(1, BOX) * 3, 3), -1)]), "i0 - i1"),
        (weighted_sum(3, [(raw_floor(axis(1, BOX), 2), 2), (raw_floor(axis(1, BOX).shift(4), 2), -2)]), "-1"),
        (weighted_sum(0, [(raw_floor(raw_floor(axis(1, BOX), 2), 2), 1)]), "i1//4"),
    ],
)
def test_one_function_has_one_spelling(expr: AxisExpr, wanted: str) -> None:
    assert str(respell(expr, BOX)) == wanted


def test_a_function_of_the_row_major_number_is_spelt_by_it() -> None:
    number = weighted_sum(0, [(axis(0, BOX), 6), (axis(1, BOX), 1)])
    again = weighted_sum(0, [(raw_floor(number, 8), 1), (raw_floor(number.shift(8), 8), 1)])
    assert str(respell(again, BOX)) == str((floordiv(number, 8, BOX) * 2).shift(1))


def test_an_interior_box_keeps_its_place() -> None:
    box = ((2, 5), (1, 3))
    expr = weighted_sum(0, [(raw_floor(axis(0, box).shift(-2), 2), 1), (raw_floor(axis(1, box) * 2, 2), 1)])
    grid = np.ix_(np.arange(2, 6), np.arange(1, 4))
    one, other = np.broadcast_arrays(expr.eval(grid), respell(expr, box).eval(grid))
    assert np.array_equal(one, other)


def _moves(rng: random.Random, count: int) -> list[AxisMap]:
    shape: tuple[int, ...] = (6, 4)
    results = []
    for _ in range(count):
        kind = rng.randrange(3)
        if kind == 0:
            perm = rng.sample(range(len(shape)), len(shape))
            results.append(axis_moves.permute(shape, perm))
        elif kind == 1:
            results.append(axis_moves.flip(shape, [rng.randrange(len(shape))]))
        else:
            results.append(axis_moves.reshape(shape, rng.choice([(6, 4), (4, 6), (8, 3), (24,), (2, 3, 4)])))
        shape = results[-1].sizes
    return results


def test_nearly_all_short_chains_of_movements_have_one_spelling() -> None:
    """Up to four movements, composed from the left and from the right; what several spell differently is a floor of
    two axes beside floors of one."""
    base = np.arange(24).reshape(6, 4)
    spellings: dict[tuple[tuple[int, ...], bytes], set[str]] = {}
    for seed in range(1500):
        rng = random.Random(seed)
        maps = _moves(rng, rng.randrange(1, 5))
        left, right = maps[0], maps[-1]
        for map_ in maps[1:]:
            left = compose(left, map_)
        for map_ in maps[-2::-1]:
            right = compose(map_, right)
        for whole in (left, right):
            spellings.setdefault((whole.sizes, apply(whole, base).tobytes()), set()).add(str(whole))
    assert len(spellings) > 100
    assert sum(len(spelling) > 1 for spelling in spellings.values()) <= 2
