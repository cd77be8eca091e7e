"""A case that one system cannot run. The process of a system imports this file alone, in no time."""

from __future__ import annotations

import numpy as np

from bench.turns import Case


def failing() -> Case:
    def build(threads: int) -> None:
        raise ValueError("no such operator\nand more")

    return Case("failing", 1e-4, {"first": lambda threads: lambda: np.ones(3), "other": build})  # type: ignore[dict-item]
