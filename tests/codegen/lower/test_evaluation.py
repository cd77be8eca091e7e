"""Evaluations that need one another, deeper than Python's stack."""

from __future__ import annotations

import pytest

from codegen.lower.evaluation import Evaluation, evaluate
from ir.kernel.nodes import Const


def counted(depth: int) -> Evaluation[Const]:
    """The depth, counted on the way back."""
    if depth == 0:
        return Const(0, "i64")
    below = yield counted(depth - 1)
    assert isinstance(below, Const)
    return Const(int(below.number) + 1, "i64")


def difference(a: int, b: int) -> Evaluation[Const]:
    first = yield counted(a)
    second = yield counted(b)
    assert isinstance(first, Const)
    assert isinstance(second, Const)
    return Const(int(first.number) - int(second.number), "i64")


def test_depth_is_not_pythons() -> None:
    assert evaluate(counted(100_000)) == Const(100_000, "i64")


def test_values_come_back_to_those_who_asked() -> None:
    assert evaluate(difference(9, 4)) == Const(5, "i64")


def test_an_error_reaches_the_caller() -> None:
    def failing() -> Evaluation[Const]:
        yield counted(3)
        raise ValueError("no value")

    with pytest.raises(ValueError, match="no value"):
        evaluate(failing())
