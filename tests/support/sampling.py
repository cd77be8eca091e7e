"""How many of a test's many cases run: a sample in `make test`, all of them in `make exhaustive`."""

from __future__ import annotations

import pytest


def every(step: int) -> pytest.MarkDecorator:
    """Gives a test the argument `step`: this one among the slow tests, 1 among the exhaustive ones."""
    sample, whole = pytest.param(step, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.exhaustive)
    return pytest.mark.parametrize("step", [sample, whole])
