"""Ranges under conditions, and who agrees on a value: what the verifier's refusals stand on."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.index.expr import ZERO, AxisExpr, box_of, parse_expr
from ir.kernel.gpu.kernel import BLOCK_X, LANE, THREAD, WARP
from ir.kernel.gpu.places import divisor, exact_range, narrow_box, outside, value_range
from ir.kernel.gpu.uniform import ID_SPREADS, Spread, spread
from ir.kernel.nodes import Within
from tests.ir.index.test_index_text import EXPRESSIONS, NAMES

SIZES = st.tuples(st.sampled_from([1, 2, 7, 16]), st.sampled_from([1, 4, 9]))
BOUNDS = st.tuples(EXPRESSIONS, st.integers(-3, 4), st.integers(1, 30))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, st.lists(BOUNDS, max_size=2), SIZES, st.integers(1, 40), st.integers(1, 3))
def test_ranges_hold_what_can_happen(
    text: str, conditions: list[tuple[str, int, int]], sizes: tuple[int, int], size: int, count: int
) -> None:
    box = box_of(sizes)
    expr = parse_expr(text, NAMES, sizes)
    facts = tuple(Within(parse_expr(text, NAMES, sizes), low, low + span) for text, low, span in conditions)
    points = [
        point
        for point in itertools.product(*map(range, sizes))
        if all(fact.low <= fact.expr.eval(point) < fact.high for fact in facts)
    ]
    values = [expr.eval(point) for point in points]
    assert all(value % divisor(expr) == 0 for value in values if divisor(expr))
    inside = narrow_box(facts, box)
    if inside is None:
        assert not points
        return
    if values:
        low, high = value_range(expr, facts, inside)
        assert low <= min(values)
        assert max(values) <= high
        result = exact_range(expr, facts, inside)
        assert result is not None
        assert result[0] <= min(values)
        assert max(values) <= result[1]
    wrong = any(not 0 <= value <= size - count for value in values)
    assert not wrong or list(outside((expr,), (size,), count, facts, box))


def test_a_condition_on_a_part_bounds_the_sum() -> None:
    """Rows of ten, of which the first half is read from five further on; too many points to try each."""
    sizes = (1 << 20, 1)
    at = (parse_expr("10*(a // 1024) + a % 10 + 5", NAMES, sizes),)
    first = (Within(parse_expr("a % 10", NAMES, sizes), 0, 5),)
    assert not list(outside(at, (10240,), 1, first, box_of(sizes)))
    assert list(outside(at, (10240,), 1, (), box_of(sizes)))


def test_a_condition_on_the_whole_proves_its_parts() -> None:
    """A flattened index below 90 is a row below 9 of 10 columns."""
    sizes = (100, 1)
    at = tuple(parse_expr(text, NAMES, sizes) for text in ("a // 10", "a % 10"))
    whole = (Within(parse_expr("a", NAMES, sizes), 0, 90),)
    assert not list(outside(at, (9, 10), 1, whole, box_of(sizes)))
    assert list(outside(at, (9, 10), 1, (), box_of(sizes)))


def test_a_condition_bounds_the_negative_of_its_expression() -> None:
    """Columns of a row that is read backwards behind padding; too many points to try each."""
    sizes = (1 << 20, 3)
    at = (parse_expr("34 - 2*(a % 17) - b", NAMES, sizes),)
    inside = (Within(parse_expr("2*(a % 17) + b", NAMES, sizes), 2, 35),)
    assert not list(outside(at, (33,), 1, inside, box_of(sizes)))
    assert list(outside(at, (33,), 1, (), box_of(sizes)))


def test_isl_decides_where_points_are_too_many() -> None:
    """Columns of a row that is read enlarged behind padding: a place less half of itself."""
    sizes = (1 << 20, 3)
    at = (parse_expr("a % 64 + b - 1 - (a % 64 + b) // 2", NAMES, sizes),)
    inside = (Within(parse_expr("a % 64 + b", NAMES, sizes), 1, 65),)
    assert not list(outside(at, (32,), 1, inside, box_of(sizes)))
    assert list(outside(at, (31,), 1, inside, box_of(sizes)))
    assert list(outside(at, (32,), 1, (), box_of(sizes)))


def test_pieces_end_where_their_steps_do() -> None:
    """8·a below 20 is 16 at most: a piece of 8 from there ends at 24."""
    at = (parse_expr("8 * a", NAMES, (16, 1)),)
    inside = (Within(at[0], 0, 20),)
    assert not list(outside(at, (24,), 8, inside, box_of((16, 1))))
    assert list(outside(at, (23,), 8, inside, box_of((16, 1))))


def test_what_is_cut_at_the_end_of_an_axis_may_start_beyond_it() -> None:
    at = (parse_expr("8 * a", NAMES, (16, 1)),)
    assert not list(outside(at, (21,), 8, (), box_of((16, 1)), limit=AxisExpr(21) - at[0]))
    assert list(outside(at, (21,), 8, (), box_of((16, 1)), limit=AxisExpr(22) - at[0]))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (ZERO, Spread.BLOCK),
        (AxisExpr(3, ((BLOCK_X, 2),)), Spread.BLOCK),
        (AxisExpr(0, ((BLOCK_X, 2), (WARP, 1))), Spread.WARP),
        (AxisExpr(0, ((LANE, 1),)), Spread.THREAD),
        (AxisExpr(0, ((THREAD, 1),)), Spread.THREAD),
        (AxisExpr(0, ((99, 1),)), Spread.THREAD),
    ],
)
def test_spread(expr: AxisExpr, expected: Spread) -> None:
    assert spread((expr,), ID_SPREADS) is expected


def test_a_warp_is_what_32_threads_agree_on() -> None:
    sizes = (1024, 1)
    assert spread((parse_expr("a // 64", NAMES, sizes),), {0: Spread.THREAD}) is Spread.WARP
    assert spread((parse_expr("a // 16", NAMES, sizes),), {0: Spread.THREAD}) is Spread.THREAD
    assert spread((parse_expr("(a + 1) // 32", NAMES, sizes),), {0: Spread.THREAD}) is Spread.THREAD
