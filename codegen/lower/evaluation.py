"""Recursion without Python's stack: a value may be computed from the one before it, thousands of times over."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from ir.cpu import Value

Evaluation: TypeAlias = Generator["Evaluation", Value, Value]
"""Yields the evaluations that it needs, is sent the value of each, and returns its own."""


def evaluated(root: Evaluation) -> Value:
    """The value of an evaluation."""
    waiting = [root]
    value: Value | None = None
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
