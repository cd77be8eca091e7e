"""The order of elements: beside NumPy's stable sort, with NaN, infinities, zeros of both signs and equal elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import nn, optimize_and_compile, tensor
from ir.dtype import DTYPES
from tests.support.equal_elements import values
from tests.support.sampling import first_few

Array = np.ndarray[Any, Any]


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
    """Axes that are ordered by counting, and by exchanges."""
    for size in (29, 100):
        x = values(name, (2, size))
        result = optimize_and_compile(tensor.input("x", x.shape, name).argsort(descending=descending))(x=x)
        np.testing.assert_array_equal(result, order(x, descending))


@pytest.mark.slow
@pytest.mark.parametrize("largest", [False, True])
@first_few(5, "name", DTYPES)
def test_a_few_elements_come_in_stable_order(name: str, largest: bool) -> None:
    """All elements of a short axis, and some of a long one, one after the other."""
    for size, count in ((6, 6), (100, 9)):
        x = values(name, (3, size))
        best, places = optimize_and_compile(tensor.input("x", x.shape, name).topk(count, -1, largest))(x=x)
        wanted = order(x, largest)[:, :count]
        np.testing.assert_array_equal(places, wanted)
        assert best.tobytes() == np.take_along_axis(x, wanted, 1).tobytes()


@pytest.mark.parametrize(
    ("name", "size"), [("i8", 17), *(pytest.param(name, 40, marks=pytest.mark.slow) for name in ("fp16", "i64"))]
)
def test_a_sort_on_a_gpu(name: str, size: int) -> None:
    x = values(name, (2, size))
    program = optimize_and_compile(tensor.input("x", x.shape, name).argsort(), target="sm_80", emulate=True)
    np.testing.assert_array_equal(np.asarray(program(x=x)), order(x, descending=False))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_few_elements(size: int) -> None:
    x = values("fp32", (3, size))
    result = optimize_and_compile(tensor.input("x", x.shape).argsort())(x=x)
    np.testing.assert_array_equal(result, order(x, descending=False))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(5000,), (300, 3), (3, 70, 20), (40, 64, 2), (5, 33, 3)], ids=str)
def test_sorts_along_every_axis(shape: tuple[int, ...]) -> None:
    x = values("fp32", shape)
    for axis in range(len(shape)):
        sorted_, places = optimize_and_compile(tensor.input("x", shape).sort(dim=axis, descending=True))(x=x)
        rows = np.moveaxis(x, axis, -1)
        wanted = np.moveaxis(order(rows.reshape(-1, shape[axis]), True).reshape(rows.shape), -1, axis)
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(sorted_, np.take_along_axis(x, wanted, axis))


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 5000])
def test_the_greatest_elements_of_short_and_long_axes(size: int) -> None:
    x = values("fp32", (size, 2))
    best, places = optimize_and_compile(nn.top_k(tensor.input("x", x.shape), 7, axis=0))(x=x)
    wanted = order(x.T, descending=True)[:, :7].T
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(best, np.take_along_axis(x, wanted, 0))
