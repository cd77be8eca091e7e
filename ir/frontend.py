"""Frontend IR (seed 000 §2): what the model means, in high-level ops, with its graph signature.

A DAG of pure nodes over named tensors. The signature is mandatory: it is the ABI. Sizes are integers or symbols.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ir.diagnostics import Kind, fail
from ir.dtype import dtype

STAGE = "frontend"

Size = int | str


class TensorInfo(msgspec.Struct, frozen=True):
    """Element type and sizes (elements, or symbols) of a tensor."""

    dtype: str
    shape: tuple[Size, ...]


class SignatureInput(msgspec.Struct, frozen=True):
    """An argument. A "param" in the "const_pool" may be bound at compile time."""

    tensor: str
    role: Literal["data", "param"] = "data"
    mutability: Literal["immutable", "mutable"] = "immutable"
    storage: str | None = None


class SignatureOutput(msgspec.Struct, frozen=True):
    """A result."""

    tensor: str


class Signature(msgspec.Struct, frozen=True):
    """What goes in and what comes out, in the caller's order."""

    inputs: tuple[SignatureInput, ...]
    outputs: tuple[SignatureOutput, ...]


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """One op. `fn` picks the function of an Elementwise, Reduce or Pool; "" as an input leaves it out."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fn: str | None = None
    attrs: dict[str, Any] = {}


class FrontendGraph(msgspec.Struct, frozen=True):
    """A model. `tensors` types at least what the signature names."""

    signature: Signature
    tensors: dict[str, TensorInfo]
    graph: tuple[Node, ...]

    def to_json(self) -> str:
        """JSON text of seed 000 §2.2's form; reads back to an equal graph."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def __str__(self) -> str:
        def typed(name: str) -> str:
            info = self.tensors.get(name)
            return f"{name}: {info.dtype}[{', '.join(map(str, info.shape))}]" if info else name

        lines = [f"model({', '.join(typed(each.tensor) for each in self.signature.inputs)})"]
        for node in self.graph:
            fn = f".{node.fn}" if node.fn else ""
            attrs = "".join(f", {key}={value}" for key, value in node.attrs.items())
            lines.append(f"  {', '.join(node.outputs)} = {node.op}{fn}({', '.join(node.inputs)}{attrs})")
        return "\n".join([*lines, f"  return {', '.join(typed(each.tensor) for each in self.signature.outputs)}"])


def parse_frontend(source: str | Mapping[str, Any]) -> FrontendGraph:
    """The graph written in JSON text, or already decoded to dicts.

    Raises:
        EqsatError: MalformedGraph for broken JSON, a missing signature, and all that `verify_frontend` finds.
    """
    try:
        data = json.loads(source) if isinstance(source, str) else source
        if isinstance(data, Mapping) and "signature" not in data:
            fail(
                Kind.MALFORMED_GRAPH,
                STAGE,
                "the graph has no signature",
                hint='name what goes in and out: "signature": {"inputs": [{"tensor": …}], "outputs": [{"tensor": …}]}',
            )
        graph = msgspec.convert(data, FrontendGraph)
    except (json.JSONDecodeError, msgspec.ValidationError) as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not a Frontend graph: {error}")
    verify_frontend(graph)
    return graph


def verify_frontend(graph: FrontendGraph) -> None:
    """Every tensor is defined once and before it is read; signature tensors are typed and exist."""
    known: set[str] = {""}
    for argument in graph.signature.inputs:
        _define(argument.tensor, known)
        if argument.tensor not in graph.tensors:
            fail(Kind.MALFORMED_GRAPH, STAGE, "the input has no entry in tensors", at=argument.tensor)
    for info in graph.tensors.values():
        dtype(info.dtype)
    made = {output for node in graph.graph for output in node.outputs}
    for node in graph.graph:
        for name in node.inputs:
            if name not in known:
                later = name in made
                fail(
                    Kind.MALFORMED_GRAPH,
                    STAGE,
                    f"reads {name!r} before it is made" if later else f"reads {name!r}, which nothing makes",
                    at=node.name,
                    op=node.op,
                    hint="list the nodes in the order of their data; a cycle has none" if later else None,
                )
        for name in node.outputs:
            _define(name, known)
    for output in graph.signature.outputs:
        if output.tensor not in known:
            fail(Kind.MALFORMED_GRAPH, STAGE, "nothing makes this output", at=output.tensor)
    if not graph.signature.outputs:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the signature has no outputs")


def _define(name: str, known: set[str]) -> None:
    if name in known and name:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the tensor is defined twice", at=name)
    known.add(name)
