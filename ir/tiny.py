"""Tiny IR: a pure DAG of uops over tensors whose sizes are all known, in topological order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import msgspec

from ir.diagnostics import EqsatError, Kind, fail, jsonable
from ir.dtype import DType, TensorType, bool_, dtype, fp32, i32, i64
from ir.uop import UOPS, Arg, UOp, UOpKind
from ir.uop_args import NON_FINITE, ArgKind, canonical

__all__ = ["STAGE", "Graph", "Imm", "Node", "Ref", "TensorType", "operand_types", "verify"]

STAGE = "tiny"
MAX_ELEMENTS = 2**62
"""Offsets into a value must fit a signed 64-bit integer."""

Ref = str
"""The id of the node whose result is read."""


class Imm(msgspec.Struct, frozen=True):
    """An immediate operand: a scalar that takes the dtype and the shape of the tensor beside it."""

    value: float | int | bool

    def __str__(self) -> str:
        return str(self.value).lower()


class Node(msgspec.Struct, frozen=True):
    """One uop: `src` are ids or immediates in the operands' order; `tag` is a remark that changes nothing."""

    id: str
    uop: str
    src: tuple[Ref | Imm, ...] = ()
    arg: Arg = msgspec.field(default_factory=Arg)
    tag: str | None = None

    @property
    def op(self) -> UOp:
        """The row of the uop table."""
        return UOPS[self.uop]

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The ids it reads, immediates left out."""
        return tuple(each for each in self.src if not isinstance(each, Imm))

    def __str__(self) -> str:
        attributes = [f"{key}={_printed(value)}" for key, value in self.arg.items()]
        operands = [str(each) if isinstance(each, Imm) else f"%{each}" for each in self.src]
        return f"%{self.id} = {self.op.fn if self.uop in UOPS else self.uop}({', '.join(operands + attributes)})"


class Graph:
    """A bound Tiny graph. Built only by `Graph.build`, which checks it, so that every Graph is valid.

    `nodes` are in topological order, `types` gives each node's result, `outputs` the ids in signature order.
    """

    __slots__ = ("__dict__", "nodes", "outputs", "types")

    nodes: tuple[Node, ...]
    outputs: tuple[Ref, ...]
    types: Mapping[Ref, TensorType]

    @classmethod
    def build(cls, nodes: Iterable[Node], outputs: Sequence[Ref] | None = None) -> Self:
        """Type and check a graph; `outputs` default to the nodes that nothing reads, inputs aside."""
        graph = cls()
        graph.nodes = tuple(map(with_exact_immediates(types := {}), nodes))
        graph.types = types
        graph.outputs = tuple(outputs) if outputs is not None else default_outputs(graph.nodes)
        _check_signature(graph)
        return graph
