"""Arrays for tests of orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.dtype import DTYPES


def values(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Elements of which many are equal, and the ends of the dtype."""
    rng, element = np.random.default_rng(0), DTYPES[name]
    if not element.is_float:
        ends = np.array([element.lowest, element.highest, 0, 1], element.numpy)
        small = rng.integers(0, 2 if element.is_bool else 9, shape).astype(element.numpy)
        return np.where(rng.random(shape) < 0.2, rng.choice(ends, shape), small)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 6e4, -6e4, 0.25], element.numpy)
    usual = rng.standard_normal(shape).astype(element.numpy)
    return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), usual).astype(element.numpy)
