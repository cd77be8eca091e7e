"""Writes the uops of a Tiny graph one after the other, and types them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

from ir.dtype import TensorType
from ir.tiny.graph import Graph, Node, Ref, type_node
from ir.tiny.node import Imm
from ir.uop.args import Arg


class UOpWriter:
    """The uops so far, with their types. taken: ids that new uops may not have."""

    def __init__(self, taken: Collection[Ref] = ()) -> None:
        self.nodes: dict[Ref, Node] = {}
        self.types: dict[Ref, TensorType] = {}
        self._taken = set(taken)
        self._numbers = count(1)
        self._tag: str | None = None

    def tagged(self, tag: str | None) -> None:
        """The tag of the uops that follow."""
        self._tag = tag

    def put(self, node: Node) -> Ref:
        """Adds a uop with an id of its own."""
        exact, type_ = type_node(node, self.types)
        self.nodes[node.id], self.types[node.id] = exact, type_
        return node.id

    def add(self, uop: str, *src: Ref | Imm, **arg: Any) -> Ref:
        """Adds a uop with a new id."""
        return self.put(Node(self._new_id(), uop, src, Arg(arg), self._tag))

    def graph(self, outputs: Sequence[Ref]) -> Graph:
        """The graph of all uops."""
        return Graph.of_typed(self.nodes.values(), outputs, self.types)

    def shape(self, ref: Ref) -> tuple[int, ...]:
        """The shape of a value."""
        return self.types[ref].shape

    def spread(self, ref: Ref, axis: int, shape: Sequence[int]) -> Ref:
        """A vector along one axis of a shape, the same along all others."""
        if list(self.shape(ref)) == list(shape):
            return ref
        inner = [size if position == axis else 1 for position, size in enumerate(shape)]
        return self.expand(self.add("RESHAPE", ref, result_shape=tuple(inner)), shape)

    def filled(self, scalar: Ref, shape: Sequence[int]) -> Ref:
        """A scalar at all positions of a shape."""
        return self.expand(self.add("RESHAPE", scalar, result_shape=(1,) * len(shape)), shape) if shape else scalar

    def expand(self, ref: Ref, shape: Sequence[int]) -> Ref:
        """The value with axes of size 1 repeated."""
        return ref if self.shape(ref) == tuple(shape) else self.add("EXPAND", ref, result_shape=tuple(shape))

    def _new_id(self) -> Ref:
        return next(name for number in self._numbers if (name := f"mask{number}") not in self._taken)
