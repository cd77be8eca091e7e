"""Ways to find the first elements of an order, and the element of a rank, beside NumPy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat import optimize_and_compile, tensor
from eqsat.lazy import first_elements
from eqsat.lazy.order_costs import RowsToOrder
from ir.diagnostics import EqsatError, Kind
from ir.dtype import DTYPES
from tests.support.equal_elements import values
from tests.support.sampling import first_few

Array = np.ndarray[Any, Any]
WAYS = (
    first_elements._by_passes,
    first_elements._by_groups,
    first_elements._by_search,
    first_elements._by_exchanges,
    first_elements._by_digits,
)


def numbers(x: Array) -> Array:
    """Integers as they are, floats in fp64 with one zero. NumPy's comparisons know no NaN of bf16."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        return x if x.dtype.kind in "biu" else x.astype(np.float64) + 0.0


def order(x: Array, descending: bool = False) -> Array:
    """The positions [a, n, b] in a stable order along axis 1. A stable sort of the reversed axis, itself reversed, is
    stable in the other direction."""
    keys = numbers(x)
    if not descending:
        return np.argsort(keys, axis=1, kind="stable")
    positions: Array = x.shape[1] - 1 - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1]
    return positions


@pytest.mark.slow
@first_few(4, "name", dict.fromkeys(["fp32", "i8", "i64", "bf16", *DTYPES]))
def test_every_way_finds_the_first_elements(name: str) -> None:
    x, descending = values(name, (2, 45, 3)), name not in ("i8", "i64")
    wanted = order(x, descending)
    given = tensor.input("x", x.shape, name)
    found = optimize_and_compile([way(given, 7, descending) for way in WAYS])(x=x)
    for way, places in zip(WAYS, found, strict=True):
        np.testing.assert_array_equal(places, wanted[:, :7], err_msg=way.__name__)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 33, 64])
def test_every_way_finds_any_number_of_elements(count: int) -> None:
    x = values("fp32", (3, 64, 1))
    ways = [way for way in WAYS if way is not first_elements._by_groups or 2 * count <= 64]
    found = optimize_and_compile([way(tensor.input("x", x.shape), count, True) for way in ways])(x=x)
    for way, places in zip(ways, found, strict=True):
        np.testing.assert_array_equal(places, order(x, True)[:, :count], err_msg=way.__name__)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fp32", "i8", "u16", "i32", "fp64", "u64"])
def test_long_rows_are_sorted_by_digits(name: str) -> None:
    rows = RowsToOrder(2, 9_999, DTYPES[name].bits)
    assert rows.digits() < rows.exchanges()
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 63, (2, 9_999), np.uint64, endpoint=True) * 2 + rng.integers(
        0, 2, (2, 9_999), np.uint64
    )
    x = bits.view(DTYPES[name].numpy)[:, :9_999].copy()
    found = optimize_and_compile(tensor.input("x", x.shape, name).argsort())(x=x)
    np.testing.assert_array_equal(found, order(x[:, :, None])[:, :, 0])


@pytest.mark.slow
@first_few(3, "name", dict.fromkeys(["fp32", "u8", "fp64", *DTYPES]))
def test_the_element_of_a_rank(name: str) -> None:
    """By a search in long rows, and by a sort in short ones; of equal elements the first position."""
    for size in (5, 300):
        x = values(name, (2, size, 3))
        given = tensor.input("x", x.shape, name)
        ranks = (0, size // 2, size - 1)
        found = optimize_and_compile([one for rank in ranks for one in given.kthvalue(rank + 1, axis=1)])(x=x)
        for rank, (value, place) in zip(ranks, zip(found[::2], found[1::2], strict=True), strict=True):
            wanted = np.take_along_axis(x, order(x)[:, rank : rank + 1], 1)
            equal = (x == wanted) | ((x != x) & (wanted != wanted))
            np.testing.assert_array_equal(numbers(value), numbers(wanted[:, 0]))
            np.testing.assert_array_equal(place, equal.argmax(1))


@pytest.mark.parametrize("k", [0, 6])
def test_an_element_that_is_not_there(k: int) -> None:
    with pytest.raises(EqsatError) as caught:
        tensor.input("x", (2, 5)).kthvalue(k)
    assert caught.value.kind is Kind.MALFORMED_GRAPH
    assert f"there is no {k}-th element" in str(caught.value)


def test_groups_are_not_taken_where_there_are_too_few() -> None:
    for size in range(2, 200):
        for count in range(1, size + 1):
            rows = RowsToOrder(1, size, 32)
            enough = -(-size // rows.group(count)) >= count
            assert enough or rows.groups(count) > rows.passes(count)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 40])
def test_first_elements_on_a_gpu(count: int) -> None:
    x = values("fp32", (2, 400))
    given = tensor.input("x", x.shape)
    program = optimize_and_compile([*given.topk(count), *given.kthvalue(9)], target="sm_80", emulate=True)
    best, places, value, _ = program(x=x)
    wanted = order(x[:, :, None], True)[:, :count, 0]
    np.testing.assert_array_equal(np.asarray(places), wanted)
    np.testing.assert_array_equal(np.asarray(best), np.take_along_axis(x, wanted, 1))
    np.testing.assert_array_equal(np.asarray(value), np.sort(x, 1)[:, 8])
