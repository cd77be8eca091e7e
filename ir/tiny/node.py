"""The nouns that a Tiny program lists: uops, calls of graphs, and the types that it states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ir.diagnostics import jsonable
from ir.dtype import TensorType
from ir.uop.args import Arg
from ir.uop.table import UOPS, UOp

Ref = str
"""The id of the node whose result is read."""

CALL = "CALL"
"""The name in place of a uop's that calls a graph."""


class Imm(msgspec.Struct, frozen=True):
    """An immediate operand: a scalar that takes the dtype and the shape of the tensor beside it."""

    value: float | int | bool

    def __str__(self) -> str:
        return str(self.value).lower()


class Node(msgspec.Struct, frozen=True):
    """One uop. `src` are ids or immediates in the operands' order. `tag` names the part of the model that
    the uop belongs to, for reports. `calls` are the calls whose graphs the uop stood in, the outermost first, each by
    the id that the call has in the graph around it. `barrier`: the result is stored in memory, and no kernel that reads
    the result computes it."""

    id: Ref
    uop: str
    src: tuple[Ref | Imm, ...] = ()
    arg: Arg = Arg()
    tag: str | None = None
    calls: tuple[Ref, ...] = ()
    barrier: bool = False

    @property
    def op(self) -> UOp:
        """The row of the uop table."""
        return UOPS[self.uop]

    @property
    def label(self) -> str:
        """The name in diagnostics: "Binary(add)", "Reduce(sum)"."""
        return self.op.label(self.arg)

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The ids that the node reads, without immediates."""
        return tuple(operand for operand in self.src if not isinstance(operand, Imm))

    @property
    def results(self) -> tuple[Ref, ...]:
        """The ids that the node defines: its own."""
        return (self.id,)

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"id": self.id, "uop": self.uop}
        if self.src:
            record["src"] = [jsonable(read.value) if isinstance(read, Imm) else read for read in self.src]
        if self.arg:
            record["arg"] = jsonable(self.arg)
        if self.tag is not None:
            record["tag"] = self.tag
        if self.calls:
            record["calls"] = list(self.calls)
        if self.barrier:
            record["barrier"] = True
        return record


class GraphCall(msgspec.Struct, frozen=True):
    """The call of a named graph. `results` are the ids of its outputs, `refs` its operands, both in signature order.
    `tag` names the part of the model that the call is."""

    results: tuple[Ref, ...]
    graph: str
    refs: tuple[Ref, ...] = ()
    tag: str | None = None

    @property
    def id(self) -> Ref:
        """The first result, which names the call in reports."""
        return self.results[0]

    @property
    def uop(self) -> str:
        return CALL

    @property
    def label(self) -> str:
        """The name in diagnostics: "call @block"."""
        return f"call @{self.graph}"

    def to_json(self) -> dict[str, Any]:
        ids = self.results[0] if len(self.results) == 1 else list(self.results)
        record: dict[str, Any] = {"id": ids, "uop": CALL, "src": list(self.refs), "arg": {"graph": self.graph}}
        return record if self.tag is None else {**record, "tag": self.tag}


class StatedType(msgspec.Struct, frozen=True):
    """The type that a program states of a value: a dtype, and for every axis a size or symbol, and a name or None."""

    dtype: str
    shape: tuple[int | str, ...]
    names: tuple[str | None, ...]

    @staticmethod
    def of(type_: TensorType) -> StatedType:
        """The statement of the type of a value."""
        return StatedType(type_.dtype.name, type_.shape, type_.names)

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"dtype": self.dtype, "shape": list(self.shape)}
        return {**record, "names": list(self.names)} if any(self.names) else record


class TextPlace(msgspec.Struct, frozen=True):
    """A place in a text: its line and column, from 1 on. near: the part of the line around the place, which is at
    `offset` of that part."""

    line: int
    column: int
    near: str
    offset: int

    @property
    def details(self) -> Mapping[str, Any]:
        """The text that a diagnostic shows of the place: its line above a caret."""
        text = self.near.replace("\t", " ")
        return {"line": self.line, "column": self.column, "text": text, "here": " " * self.offset + "^"}
