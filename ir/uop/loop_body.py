"""The graph that a LOOP runs in every trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ir.dtype import TensorType


@dataclass(frozen=True)
class LoopBody:
    """The graph of a loop (`ir.tiny.graph.Graph`) with the types of its parameters and results. Bodies are equal if
    their graphs are; the name is for people."""

    name: str = field(compare=False)
    graph: Any
    parameters: Sequence[TensorType] = field(compare=False)
    results: Sequence[TensorType] = field(compare=False)

    def __str__(self) -> str:
        return self.name
