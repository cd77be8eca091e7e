"""Recursion without Python's stack, since chains of values may be thousands of values long."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

V = TypeVar("V")
Evaluation: TypeAlias = Generator["Evaluation[V]", V, V]
"""A generator that yields the evaluations that it needs, receives their values, and returns its own value."""


def evaluate(root: Evaluation[V]) -> V:
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
