"""A saturated e-graph as plain data, which extraction, explanation and dumps read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.egraph.enode import ENode
from ir.dtype import TensorType
from ir.term.language import Sort

STEPS = ("PView", "EView", "PGather", "PMax")
"""Steps of derivations, as movements on their way down to the reads: no kernel can hold one."""


@dataclass(frozen=True)
class EGraphView:
    """classes: the nodes of each class, in a deterministic order. sorts: of classes. tiny: the Buf class of each uop.
    rules: the rule that built a node; loaded nodes are absent.

    Classes may be cyclic (a buffer that loads itself)."""

    classes: Mapping[int, tuple[ENode, ...]]
    sorts: Mapping[int, Sort]
    tiny: Mapping[str, int]
    rules: Mapping[ENode, str]

    def type_of(self, buffer: int) -> TensorType:
        """The type of a Buf class."""
        return self.classes[buffer][0].type

    def stores(self, buffer: int) -> Sequence[ENode]:
        """The Store nodes of a Buf class; its other nodes are inputs."""
        return [node for node in self.classes[buffer] if node.ctor == "Store"]
