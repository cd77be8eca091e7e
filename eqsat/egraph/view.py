"""A saturated e-graph as plain data: what extraction, explanation and the dumps read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.egraph.enode import ENode
from ir.dtype import TensorType
from ir.term.language import Sort


@dataclass(frozen=True)
class EGraphView:
    """classes: class → its nodes, in a deterministic order; sorts: class → sort;
    tiny: Tiny node → its Buf class; rules: node → the rule that built it (absent: it was loaded).

    PView, EView and PMax nodes record how a class was derived and are no part of a kernel; classes may be cyclic
    (a buffer that loads itself)."""

    classes: Mapping[int, tuple[ENode, ...]]
    sorts: Mapping[int, Sort]
    tiny: Mapping[str, int]
    rules: Mapping[ENode, str]

    def type_of(self, buffer: int) -> TensorType:
        """The type of a Buf class."""
        return self.classes[buffer][0].type

    def stores(self, buffer: int) -> Sequence[ENode]:
        """The nodes that store a Buf class; the others are inputs."""
        return [node for node in self.classes[buffer] if node.ctor == "Store"]
