"""Copies and parts of lazy tensors, as methods and as NumPy's functions: tile, repeat, roll, stack, split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat import tensor
from ir.diagnostics import EqsatError
from tests.eqsat.lazy.test_tensor import randn, run

X, SCALAR, EMPTY = randn(3, 1, 4), randn(), randn(2, 0, 3)

CALLS: list[Callable[[Any], Any]] = [
    lambda x: np.tile(x, 3),
    lambda x: np.tile(x, (2, 1, 3)),
    lambda x: np.tile(x, (2, 3, 1, 1)),
    lambda x: np.tile(x, 0),
    lambda x: np.tile(x, (1, 1)),
    lambda x: np.repeat(x, 2),
    lambda x: np.repeat(x, 3, 0),
    lambda x: np.repeat(x, 2, -1),
    lambda x: np.repeat(x, [2, 0, 1], 0),
    lambda x: np.repeat(x, [2], 1),
    lambda x: np.repeat(x, 0, 2),
    lambda x: np.roll(x, 1),
    lambda x: np.roll(x, -5),
    lambda x: np.roll(x, (1, 2)),
    lambda x: np.roll(x, 7, 0),
    lambda x: np.roll(x, (1, -2), (0, 2)),
    lambda x: np.roll(x, 2, (0, 2)),
    lambda x: np.roll(x, (1, 2), 0),
    lambda x: np.stack([x, x + 1]),
    lambda x: np.stack([x, x + 1, x * 2], -1),
    lambda x: np.stack([x], 1),
    lambda x: np.split(x, 3)[1],
    lambda x: np.split(x, 2, -1)[1],
    lambda x: np.split(x, [1, 3], 2)[1],
    lambda x: np.split(x, [1, 3, 9], 2)[3],
    lambda x: np.split(x, [2, 1], 0)[1],
    lambda x: np.split(x, [-1], 0)[0],
    lambda x: np.concatenate(np.split(x, [], 0)),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_copies_and_parts_are_numpys(number: int) -> None:
    np.testing.assert_array_equal(run(CALLS[number], X), CALLS[number](X))


def test_copies_of_a_scalar_and_of_nothing() -> None:
    calls: list[Callable[[Any], Any]] = [lambda x: np.tile(x, 2), lambda x: np.repeat(x, 3), lambda x: np.roll(x, 1)]
    for call in calls:
        np.testing.assert_array_equal(run(call, SCALAR), call(SCALAR))
        np.testing.assert_array_equal(run(call, EMPTY), call(EMPTY))
    np.testing.assert_array_equal(run(lambda x: x.roll(1, 1), EMPTY), EMPTY)
    np.testing.assert_array_equal(run(lambda x: x.split(2, axis=1)[1], EMPTY), EMPTY)


def test_methods_are_the_functions() -> None:
    np.testing.assert_array_equal(run(lambda x: x.tile(2, 1, 1), X), np.tile(X, (2, 1, 1)))
    np.testing.assert_array_equal(run(lambda x: x.repeat(2, axis=0), X), X.repeat(2, 0))
    np.testing.assert_array_equal(run(lambda x: x.roll(1, 2), X), np.roll(X, 1, 2))
    np.testing.assert_array_equal(run(lambda x: tensor.stack([x, X], 1), X), np.stack([X, X], 1))
    assert [part.shape for part in tensor.input("x", (3, 4)).split([1], axis=1)] == [(3, 1), (3, 3)]


x = tensor.input("x", (3, 4))


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        (lambda: x.tile(-1), "from 0 on"),
        (lambda: x.repeat([1, 2], axis=0), "one per element"),
        (lambda: x.repeat(-1, axis=0), "from 0 on"),
        (lambda: x.roll((1, 2, 3), (0, 1)), "one shift per axis"),
        (lambda: x.roll(1, ()), "one shift per axis"),
        (lambda: x.roll((), 0), "one shift per axis"),
        (lambda: x.split(3, axis=1), "positions between the parts"),
        (lambda: x.split(0, axis=0), "positions between the parts"),
        (lambda: tensor.stack([]), "at least one"),
        (lambda: tensor.stack([x, x[0]]), "one shape"),
    ],
)
def test_impossible_copies_are_refused(call: Callable[[], Any], way_out: str) -> None:
    with pytest.raises(EqsatError) as caught:
        call()
    assert way_out in str(caught.value)
