"""A graph in an attribute of a node, such as the body of a Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from ir.frontend import FrontendNode

T = TypeVar("T")


class Subgraph(msgspec.Struct, frozen=True):
    """A graph of nodes.

    inputs    the names of its arguments
    captures  tensors that it reads from outside; the last inputs of the node that has this attribute
    outputs   the names of its results
    """

    inputs: tuple[str, ...]
    captures: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[FrontendNode, ...]

    def split(self, operands: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """The node's own operands, and those that are captured."""
        own = len(operands) - len(self.captures)
        return operands[:own], operands[own:]
