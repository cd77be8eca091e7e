"""Recursion without Python's stack: a value may be computed from the one before it, thousands of times over."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

V = TypeVar("V")
Evaluation: TypeAlias = Generator["Evaluation[V]", V, V]
"""Yields the evaluations that it needs, is sent the value of each, and returns its own."""


def evaluated(root: Evaluation[V]) -> V:
    """The value of an evaluation."""
    waiting = [root]
    value: V | None = None
    while waiting:
        try:
            needed = next(waiting[-1]) if value is None else waiting[-1].send(value)
        except StopIteration as end:
            waiting.pop()
            value = end.value
        else:
            waiting.append(needed)
            value = None
    assert value is not None
    return value
