"""Indices of rows, which C keeps as integers: every operator on integers of every width, at the ends of its dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat import optimize_and_compile, tensor

ROWS, COUNT = 40, 60
WHOLE = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
INDICES: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda of, a, b: a + b,
    lambda of, a, b: a - b,
    lambda of, a, b: a * b,
    lambda of, a, b: -a + b,
    lambda of, a, b: of.minimum(a, b),
    lambda of, a, b: of.maximum(a, b),
    lambda of, a, b: of.where((a < b) & (a != 3) | (a >= 7) ^ (b <= 2), a, b),
    lambda of, a, b: of.where((a > b) | (a == b), b, a),
    lambda of, a, b: (a & b) | (a ^ b),
    lambda of, a, b: (a * b).astype("int8").astype("uint16"),
)
"""Indices made of two arrays; `of` is NumPy or `eqsat.tensor`."""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WHOLE)
def test_indices_are_computed_as_numpy_does(dtype: str) -> None:
    rng, kind = np.random.default_rng(7), np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    ends = np.array([np.iinfo(kind).min, np.iinfo(kind).max, 0, 1], kind)
    a, b = (
        np.where(rng.random(COUNT) < 0.5, rng.choice(ends, COUNT), rng.integers(0, ROWS, COUNT, kind)) for _ in "ab"
    )
    rows = rng.standard_normal((ROWS, 32)).astype(np.float32)
    x, one, other = (
        tensor.input("x", rows.shape),
        tensor.input("a", (COUNT,), dtype),
        tensor.input("b", (COUNT,), dtype),
    )
    program = optimize_and_compile(
        [x[tensor.where(_is_row(index), index, 0).astype("int64")].exp() for index in _indices(tensor, one, other)]
    )
    assert "eq_pick(" not in program.source()
    with np.errstate(over="ignore"):
        wanted = [np.where(_is_row(index), index, 0).astype(np.int64) for index in _indices(np, a, b)]
    for got, index in zip(program(x=rows, a=a, b=b), wanted, strict=True):
        np.testing.assert_allclose(got, np.exp(rows[index]), rtol=1e-6)


def _indices(of: Any, a: Any, b: Any) -> list[Any]:
    return [index(of, a, b) for index in INDICES]


def _is_row(index: Any) -> Any:
    return (index >= 0) & (index < ROWS)


def test_the_index_of_a_row_is_no_vector() -> None:
    index, x = tensor.input("i", (50,), "i64"), tensor.input("x", (ROWS, 64))
    source = optimize_and_compile((x[index] * x[index.flip(0)]).sum(-1)).source()
    assert "eq_hold(" in source
    assert "eq_pick(" not in source


def test_an_index_that_vectors_read_stays_one() -> None:
    """The index is a result, too, in lanes beside each other."""
    index, x = tensor.input("i", (50,), "i64"), tensor.input("x", (ROWS, 64))
    wrapped = tensor.where(index < 0, index + ROWS, index)
    numbers = np.random.default_rng(3).integers(-ROWS, ROWS, 50)
    rows = np.random.default_rng(4).standard_normal((ROWS, 64)).astype(np.float32)
    got, kept = optimize_and_compile([(x[wrapped]).exp(), wrapped * 2])(i=numbers, x=rows)
    np.testing.assert_allclose(got, np.exp(rows[numbers]), rtol=1e-6)
    np.testing.assert_array_equal(kept, np.where(numbers < 0, numbers + ROWS, numbers) * 2)
