"""The styles of random instances: what one attempt cannot show, another does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ir.dtype import TensorType
from ir.term.rule import Exactness
from ir.term.text import parse_sizes
from rules import RULES
from rules.soundness import Draw, agree, applications, draw_instances
from rules.styles import LARGE, SPECIALS, Style

by_level = pytest.mark.parametrize("level", Exactness, ids=lambda level: level.name)
ATTEMPTS = 400


def styles(level: Exactness) -> list[Style]:
    return [Style.of(level, attempt) for attempt in range(ATTEMPTS)]


@by_level
def test_every_second_attempt_has_specials_that_the_level_bears(level: Exactness) -> None:
    for attempt, style in enumerate(styles(level)):
        assert bool(style.specials) == (attempt % 2 == 0)
        assert style.specials is LARGE or set(map(repr, style.specials)) <= set(map(repr, SPECIALS[level]))
        assert style.fine or level is not Exactness.EXACT


@by_level
def test_any_two_specials_of_a_level_meet_in_dense_attempts(level: Exactness) -> None:
    dense = {frozenset(map(repr, style.specials)) for style in styles(level) if style.share > 0.5}
    for one in map(repr, SPECIALS[level]):
        for other in map(repr, SPECIALS[level]):
            assert any({one, other} <= numbers for numbers in dense)


@by_level
def test_some_attempts_have_empty_axes_and_some_long_sums(level: Exactness) -> None:
    result = styles(level)
    for size_in, least in ((lambda style: min(style.extents.axes) == 0, 0.2), (_is_long, 0.2)):
        assert least < sum(map(size_in, result)) / len(result) < 0.5


def _is_long(style: Style) -> bool:
    return max(style.extents.reduced) > 20 and style.fine and not style.specials


def test_arrays_hold_the_specials_in_their_share() -> None:
    style = Style(specials=(math.inf, -math.inf), share=0.6)
    array = style.array(np.random.default_rng(1), TensorType.of("fp32", (50, 40)), wraps=False)
    assert 0.55 < np.isinf(array).mean() < 0.65
    assert np.isposinf(array).sum() > 400
    assert np.isneginf(array).sum() > 400


def test_integers_reach_their_ends_where_the_value_wraps_only() -> None:
    style, type_ = Style(specials=(math.inf,), share=0.6), TensorType.of("i8", (200,))
    for wraps in (False, True):
        array = style.array(np.random.default_rng(2), type_, wraps)
        assert ({-128, 127} <= set(array.tolist())) is wraps


@pytest.mark.slow
def test_rows_of_several_elements_beside_what_is_constant_along_them_are_common() -> None:
    rule = next(rule for rule in RULES if rule.name == "invariant_addend_of_extremum")
    sizes = [
        parse_sizes(str(instance.binding["k"])) for instance, _ in applications(rule, np.random.default_rng(3), 2_000)
    ]
    assert sum(math.prod(size) > 1 for size in sizes) > len(sizes) / 4


def test_most_instances_have_elements_and_some_have_none() -> None:
    rule = next(rule for rule in RULES if rule.name == "view_through_unary")
    empty = [
        any(0 in array.shape for array in instance.inputs.values())
        for instance in draw_instances(Draw.of(rule), np.random.default_rng(4), 1_000)
    ]
    assert 0.02 < np.mean(empty) < 0.4


def test_the_same_seed_gives_the_same_instances() -> None:
    rule = next(rule for rule in RULES if rule.name == "sum_of_products")
    first, second = (list(draw_instances(Draw.of(rule), np.random.default_rng(5), 60)) for _ in range(2))
    assert [str(instance.term) for instance in first] == [str(instance.term) for instance in second]
    for one, other in zip(first, second, strict=True):
        assert one.inputs.keys() == other.inputs.keys()
        assert all(one.inputs[name].tobytes() == other.inputs[name].tobytes() for name in one.inputs)


def test_large_terms_may_have_cancelled() -> None:
    """1000·1000/1.5 + 1/1.5 − 1000·1000/1.5 is off by 1e−10: no rule is unsound for that."""
    exact, sums = np.array([2 / 3]), np.array([1e6 / 1.5 + 1 / 1.5 - 1e6 / 1.5])
    assert not agree(exact, sums, 64 * 2.0**-52)
    assert agree(exact, sums, 64 * 2.0**-52, LARGE[0] ** 3)
    assert not agree(exact, exact + 1e-3, 64 * 2.0**-52, LARGE[0] ** 3)
