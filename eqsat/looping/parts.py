"""A program as parts: graphs without loops, each optimized by itself, and the loops that run them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ir.dtype import TensorType
from ir.tiny.graph import Graph, Ref

MAIN = "main"
"""The name of the first part outside of calls and loops."""


@dataclass(frozen=True)
class Part:
    """A graph without loops. Its ids are those of the whole program. name: of the call or the loop that it belongs to,
    else `MAIN`, with a number where there are several. reads: the value that each of its inputs is, by tensor_id.
    constants: the inputs that are known when the program is built. given: the inputs of the program itself, which no
    kernel writes. A loop's part has none: later trips read its inputs again."""

    name: str
    graph: Graph
    reads: Mapping[str, Ref]
    constants: tuple[str, ...]
    given: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """The beginning of the names of buffers that no uop writes."""
        return "" if self.name == MAIN else f"{self.name}/"


class State(NamedTuple):
    """A value that a loop carries: `initial` before the first trip, `before` and `after` each trip, `result` at the
    end."""

    initial: Ref
    before: Ref
    after: Ref
    result: Ref
    type: TensorType


class LoopElement(NamedTuple):
    """`element` is, in each trip, the next part of `whole` along its first axis: read of a scanned operand, or written
    of a stacked result."""

    whole: Ref
    element: Ref
    type: TensorType


@dataclass(frozen=True)
class PartLoop:
    """A loop: `steps` run once per trip. `type` of scanned and stacked is that of one element."""

    name: Ref
    trips: int
    reverse: bool
    states: tuple[State, ...]
    scanned: tuple[LoopElement, ...]
    stacked: tuple[LoopElement, ...]
    steps: Steps


Steps = tuple["Part | PartLoop", ...]


def parts_of(steps: Sequence[Part | PartLoop]) -> Iterator[Part]:
    """All parts, in the order in which they first run."""
    for step in steps:
        if isinstance(step, Part):
            yield step
        else:
            yield from parts_of(step.steps)


def values_of(steps: Sequence[Part | PartLoop]) -> dict[Ref, TensorType]:
    """The type of every value of all parts."""
    return {ref: type_ for part in parts_of(steps) for ref, type_ in part.graph.types.items()}
