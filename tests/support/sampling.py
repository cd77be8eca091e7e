"""How many of a test's many cases run: a sample in `make test`, all of them in `make exhaustive`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from ir.term.rule import Rule


def every(step: int) -> pytest.MarkDecorator:
    """Gives a test the argument `step`: this one among the slow tests, 1 among the exhaustive ones."""
    sample, whole = pytest.param(step, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.exhaustive)
    return pytest.mark.parametrize("step", [sample, whole])


def first_few(count: int, name: str, values: Iterable[object]) -> pytest.MarkDecorator:
    """Gives a test the argument `name`: the first `count` values among the slow tests, the others among the exhaustive
    ones."""
    mark = [pytest.mark.slow, pytest.mark.exhaustive]
    results = [pytest.param(value, marks=mark[place >= count]) for place, value in enumerate(values)]
    return pytest.mark.parametrize(name, results)


def one_in(
    step: int,
    rules: Iterable[Rule],
    others: pytest.MarkDecorator = pytest.mark.slow,
    dear: Collection[str] = (),
) -> pytest.MarkDecorator:
    """Gives a test the argument `rule`: every `step`-th rule among the fast tests, the `others` among the slow ones, or
    among the exhaustive ones; the rules named `dear` among the exhaustive ones."""
    results = []
    for place, rule in enumerate(rules):
        mark = pytest.mark.exhaustive if rule.name in dear else others
        results.append(pytest.param(rule, marks=mark) if place % step or rule.name in dear else rule)
    return pytest.mark.parametrize("rule", results, ids=lambda rule: rule.name)
