"""The coefficients of c/tables.h, computed with in fp64."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from codegen.text.prelude.make_tables import HEADER, INTERVALS, text

Tables = dict[str, NDArray[np.float64]]


@pytest.fixture(scope="module")
def tables() -> Tables:
    """The tables of the header by name."""
    found = re.findall(r"EQ_TABLE (\w+) = \{([^}]*)\}", HEADER.read_text())
    numbers = {name: [float(word.strip().rstrip("f")) for word in row.split(",")] for name, row in found}
    return {name: np.array(row, np.float32).astype(np.float64) for name, row in numbers.items()}


def test_the_header_is_that_of_its_script() -> None:
    assert HEADER.read_text() == text(), "run python -m codegen.text.prelude.make_tables"


@pytest.mark.parametrize(
    ("name", "f", "spacing", "degree", "top"),
    [("ERF", math.erf, 0.25, 5, 3.87), ("TANH", math.tanh, 0.58, 7, 8.98)],
)
def test_odd_functions(
    tables: Tables, name: str, f: Callable[[float], float], spacing: float, degree: int, top: float
) -> None:
    x = np.concatenate([np.geomspace(1e-30, 0.01, 1000), np.linspace(0.01, top, 20_000)])
    place = np.rint(x / spacing).astype(np.intp)
    assert place.max() == INTERVALS - 1
    rows = np.array([tables[f"EQ_{name}_{k}"] for k in range(degree + 1)])
    found = np.polynomial.polynomial.polyval(x - place * spacing, rows[:, place], tensor=False)
    exact = np.array([f(value) for value in x])
    assert np.abs(found / exact - 1).max() < 1.2e-7
    assert np.float32(found[-1]) == 1


def test_logarithms(tables: Tables) -> None:
    low = 1 + np.arange(INTERVALS) / INTERVALS
    mantissas = np.where(low < 1.5, low, low / 2)
    inverses = tables["EQ_INVERSES"]
    for edge in (mantissas, mantissas + np.where(low < 1.5, 1, 0.5) / INTERVALS):
        assert (np.abs(edge * inverses - 1) <= 1 / 16).all()
    np.testing.assert_allclose(tables["EQ_LOGS"], -np.log(inverses), 6e-8)
    np.testing.assert_allclose(tables["EQ_LOGS2"], -np.log2(inverses), 6e-8)


def test_powers_of_two(tables: Tables) -> None:
    np.testing.assert_allclose(tables["EQ_POWERS"], 2 ** (np.arange(INTERVALS) / INTERVALS), 6e-8)
