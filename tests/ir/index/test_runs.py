"""Runs and windows of neighbours, and the growth of lanes: beside the values of the expressions at all points."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ir.index.expr import AxisExpr, axis, box_of, floordiv, weighted_sum
from ir.index.linear import FloorDiv
from ir.index.runs import (
    changes_within,
    growth_of_lanes,
    growth_within,
    parts_of_lanes,
    run_of_neighbours,
    window_floor,
)

SIZES = (6, 240)
BOX = box_of(SIZES)
LANES = 8

numerators = st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 70))
divisors = st.sampled_from([2, 3, 4, 8, 16, 40, 64])
floors = st.tuples(numerators, divisors, st.integers(-3, 3))
expressions = st.tuples(st.lists(floors, max_size=2), st.sampled_from([0, 1]), st.integers(-2, 2))


def expression(parts: list[tuple[tuple[int, int, int], int, int]], step: int, outer: int) -> AxisExpr:
    terms = [(axis(0, BOX), outer), (axis(1, BOX), step)]
    for (c0, c1, const), divisor, weight in parts:
        numerator = weighted_sum(const, [(axis(0, BOX), c0), (axis(1, BOX), c1)])
        terms.append((floordiv(numerator, divisor, BOX), weight))
    return weighted_sum(3, terms)


def values(expr: AxisExpr, outer: int, first: int, count: int) -> list[int]:
    return [expr.eval((outer, first + lane)) for lane in range(count)]


@given(expressions, st.integers(0, 5))
def test_the_growth_of_lanes_is_the_same_everywhere(
    drawn: tuple[list[tuple[tuple[int, int, int], int, int]], int, int], outer: int
) -> None:
    expr = expression(*drawn)
    growth = growth_of_lanes(expr, 1, LANES)
    for first in range(0, SIZES[1] - LANES, LANES) if growth else ():
        start, *_ = found = values(expr, outer, first, LANES)
        assert [start + grown for grown in growth] == found


def test_the_growth_of_lanes_is_known_for_divisors_of_their_number() -> None:
    i, j = axis(0, BOX), axis(1, BOX)
    half = floordiv(j + AxisExpr(1), 2, BOX)
    assert growth_of_lanes(half, 1, 4) == (0, 1, 1, 2)
    assert growth_of_lanes(j - floordiv(j, 2, BOX) * 2, 1, 4) == (0, 1, 0, 1)
    assert growth_of_lanes(floordiv(j, 8, BOX), 1, 4) == (0, 0, 0, 0)
    assert growth_of_lanes(floordiv(j + AxisExpr(4), 8, BOX), 1, 4) == (0, 0, 0, 0)
    assert growth_of_lanes(floordiv(j + AxisExpr(2), 8, BOX), 1, 4) == ()
    assert growth_of_lanes(floordiv(j, 3, BOX), 1, 4) == ()
    assert growth_of_lanes(floordiv(i + j * 2, 4, BOX), 1, 4) == ()


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=8), st.sampled_from([4, 8, 16]))
def test_parts_hold_the_elements_of_all_lanes(growth: list[int], width: int) -> None:
    parts = parts_of_lanes(tuple(growth), width)
    if parts:
        held = [[place + part.first if here else None for place, here in zip(part.places, part.lanes, strict=True)]
                for part in parts]  # fmt: skip
        assert [[place for place in lane if place is not None] for lane in zip(*held, strict=True)] == [
            [grown] for grown in growth
        ]
        for part in parts:
            assert all(0 <= place < part.size <= width for place in part.places)
            assert {part.first, part.first + part.size - 1} <= set(growth)


@given(expressions, st.integers(0, 5), st.integers(0, SIZES[1] - LANES))
def test_runs_grow_by_one_between_the_changes_of_floors(
    drawn: tuple[list[tuple[tuple[int, int, int], int, int]], int, int], outer: int, first: int
) -> None:
    expr = expression(*drawn)
    if run_of_neighbours(expr, 1) and changes_within(expr, 1, LANES - 1, BOX).eval((outer, first)) == 0:
        start, *_ = found = values(expr, outer, first, LANES)
        assert found == [start + lane for lane in range(LANES)]


@given(numerators, divisors, st.integers(0, 5), st.integers(0, SIZES[1] - LANES))
def test_windows_hold_the_values_of_all_lanes(
    numerator: tuple[int, int, int], divisor: int, outer: int, first: int
) -> None:
    expr = expression([(numerator, divisor, 1)], 0, 1)
    floor = window_floor(expr, 1)
    if floor is not None:
        assert isinstance(floor, FloorDiv)
        last = growth_within(floor, 1, AxisExpr(LANES - 1), BOX).eval((outer, first))
        start, *_ = found = values(expr, outer, first, LANES)
        assert found == sorted(found)
        assert found[-1] - start == last < LANES
