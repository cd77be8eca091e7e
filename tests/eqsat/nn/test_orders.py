"""The order of elements: beside NumPy's stable sort, with NaN, infinities, zeros of both signs and equal elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from eqsat.lazy.radix_sort import sorted_positions
from ir.dtype import DTYPES
from tests.support.sampling import first_few

Array = np.ndarray[Any, Any]


def values(name: str, shape: tuple[int, ...]) -> Array:
    """Elements of which many are equal, and the ends of the dtype."""
    rng, element = np.random.default_rng(0), DTYPES[name]
    if not element.is_float:
        ends = np.array([element.lowest, element.highest, 0, 1], element.numpy)
        small = rng.integers(0, 2 if element.is_bool else 9, shape).astype(element.numpy)
        return np.where(rng.random(shape) < 0.2, rng.choice(ends, shape), small)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 6e4, -6e4, 0.25], element.numpy)
    usual = rng.standard_normal(shape).astype(element.numpy)
    return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), usual).astype(element.numpy)


def order(x: Array, descending: bool) -> Array:
    """The positions in a stable order along the last of two axes, by Python's sort of exact numbers."""
    wide = x.astype(np.float64) if x.dtype.kind not in "biu" else x

    def key(value: Any) -> tuple[bool, Any]:
        return (value != value, 0 if value != value else value if wide.dtype.kind == "f" else int(value))

    def along(row: list[Any]) -> list[int]:
        keys = [key(value) for value in row]
        return sorted(range(len(row)), key=keys.__getitem__, reverse=descending)

    return np.array(list(map(along, wide.tolist())), np.int64).reshape(x.shape)


@pytest.mark.slow
@pytest.mark.parametrize("descending", [False, True])
@first_few(5, "name", DTYPES)
def test_a_sort_is_stable(name: str, descending: bool) -> None:
    x = values(name, (2, 29))
    result = optimize_and_compile(sorted_positions(tensor.input("x", x.shape, name), descending))(x=x)
    np.testing.assert_array_equal(result, order(x, descending))


@pytest.mark.parametrize("name", ["i8", pytest.param("fp16", marks=pytest.mark.slow)])
def test_a_sort_on_a_gpu(name: str) -> None:
    x = values(name, (2, 17))
    y = sorted_positions(tensor.input("x", x.shape, name))
    program = optimize_and_compile(y, target="sm_80", emulate=True)
    np.testing.assert_array_equal(np.asarray(program(x=x)), order(x, descending=False))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_few_elements(size: int) -> None:
    x = values("fp32", (3, size))
    result = optimize_and_compile(sorted_positions(tensor.input("x", x.shape)))(x=x)
    np.testing.assert_array_equal(result, order(x, descending=False))


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 5000])
def test_the_greatest_elements_of_short_and_long_axes(size: int) -> None:
    x = values("fp32", (size, 2))
    best, places = optimize_and_compile(nn.top_k(tensor.input("x", x.shape), 7, axis=0))(x=x)
    wanted = order(x.T, descending=True)[:, :7].T
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(best, np.take_along_axis(x, wanted, 0))
