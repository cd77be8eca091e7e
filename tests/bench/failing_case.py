"""Cases that one system cannot run, or computes wrong. The process of a system imports this file alone, in no time."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.turns import Case, Runner


def failing() -> Case:
    def build(threads: int) -> None:
        raise ValueError("no such operator\nand more")

    return Case("failing", 1e-4, {"first": lambda threads: lambda: np.ones(3), "other": build})  # type: ignore[dict-item]


def differing(wrong: str) -> Case:
    """Three systems, one of which computes another result."""
    results = {name: np.full(3, 2.0 if name == wrong else 1.0) for name in ("first", "second", "third")}
    return Case("differing", 1e-4, {name: partial(_returning, result) for name, result in results.items()})


def _returning(result: np.ndarray, threads: int) -> Runner:
    return lambda: result
