"""Frontend IR (seed 000 §2): the model in high-level ops, with its graph signature.

A DAG of pure nodes over named tensors. The signature is mandatory: it is the ABI. Sizes are integers or symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import msgspec

from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import dtype
from ir.serde import from_builtins
from ir.tiny.parse import document_of
from ir.uop.args import is_symbol

STAGE = "frontend"

Size = int | str

MAX_SIZE = 2**62
"""Offsets into a tensor must fit a signed 64-bit integer."""


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
    """The arguments and results, in the caller's order."""

    inputs: tuple[SignatureInput, ...]
    outputs: tuple[SignatureOutput, ...]


class FrontendNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One op. `fn` picks the function of an Elementwise, Reduce or Pool; "" as an input leaves it out. tag: the part of
    the model that the node belongs to, by which reports call it; if empty, that is the node's name."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fn: str | None = None
    attrs: dict[str, Any] = {}
    tag: str = ""


class FrontendGraph(msgspec.Struct, frozen=True):
    """A model. `tensors` has the types of at least the signature's tensors."""

    signature: Signature
    tensors: dict[str, TensorInfo]
    graph: tuple[FrontendNode, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that stand for sizes, in the order of the inputs."""
        shapes = [self.tensors[argument.tensor].shape for argument in self.signature.inputs]
        return tuple(dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, str)))

    def to_json(self) -> str:
        """JSON text of seed 000 §2.2's form; reads back to an equal graph."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def __str__(self) -> str:
        def typed(name: str) -> str:
            info = self.tensors.get(name)
            return f"{name}: {info.dtype}[{', '.join(map(str, info.shape))}]" if info else name

        lines = [f"model({', '.join(typed(argument.tensor) for argument in self.signature.inputs)})"]
        for node in self.graph:
            fn = f".{node.fn}" if node.fn else ""
            attrs = "".join(f", {key}={value}" for key, value in node.attrs.items())
            lines.append(f"  {', '.join(node.outputs)} = {node.op}{fn}({', '.join(node.inputs)}{attrs})")
        return "\n".join([*lines, f"  return {', '.join(typed(result.tensor) for result in self.signature.outputs)}"])


def parse_frontend(source: str | Mapping[str, Any]) -> FrontendGraph:
    """The graph written in JSON text (// comments allowed), or already decoded to dicts.

    Raises:
        EqsatError: MalformedGraph for broken JSON, a missing signature, and all errors of `verify_frontend`.
    """
    document = document_of(source) if isinstance(source, str) else source
    if isinstance(document, Mapping) and "signature" not in document:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            "the graph has no signature",
            hint='name inputs and outputs: "signature": {"inputs": [{"tensor": …}], "outputs": [{"tensor": …}]}',
        )
    try:
        graph = from_builtins(document, FrontendGraph)
    except (msgspec.ValidationError, RecursionError) as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not a Frontend graph: {error}")
    verify_frontend(graph)
    return graph


def verify_frontend(graph: FrontendGraph) -> None:
    """Every tensor is defined once and before it is read; the signature's tensors are typed and exist.

    Raises:
        EqsatError: MalformedGraph, DtypeMismatch for an unknown element type.
    """
    for name, info in graph.tensors.items():
        _check_info(name, info)
    known: set[str] = {""}
    for argument in graph.signature.inputs:
        _define(argument.tensor, known)
        if argument.tensor not in graph.tensors:
            fail(Kind.MALFORMED_GRAPH, STAGE, "the input has no entry in tensors", at=argument.tensor)
    computed = {output for node in graph.graph for output in node.outputs}
    for node in graph.graph:
        for name in node.inputs:
            if name not in known:
                _refuse_read(node, name, computed)
        if not any(node.outputs):
            fail(Kind.MALFORMED_GRAPH, STAGE, "the node has no output", at=node.name, op=node.op)
        for name in filter(None, node.outputs):
            _define(name, known)
    if not graph.signature.outputs:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the signature has no outputs")
    for output in graph.signature.outputs:
        if output.tensor not in known or not output.tensor:
            fail(Kind.MALFORMED_GRAPH, STAGE, "no node computes this output", at=output.tensor)


def _check_info(name: str, info: TensorInfo) -> None:
    try:
        dtype(info.dtype)
    except EqsatError as error:
        raise error.locate(at=name, op="tensor") from None
    for size in info.shape:
        if not (is_symbol(size) if isinstance(size, str) else 0 <= size < MAX_SIZE):
            fail(Kind.MALFORMED_GRAPH, STAGE, f"{size!r} is neither a size ≥ 0 nor a symbol", at=name)


def _define(name: str, known: set[str]) -> None:
    if not name or name in known:
        fail(Kind.MALFORMED_GRAPH, STAGE, "the tensor is defined twice" if name else "a tensor needs a name", at=name)
    known.add(name)


def _refuse_read(node: FrontendNode, name: str, computed: set[str]) -> NoReturn:
    later = name in computed
    fail(
        Kind.MALFORMED_GRAPH,
        STAGE,
        f"reads {name!r} before it is computed" if later else f"reads {name!r}, which no node computes",
        at=node.name,
        op=node.op,
        hint="list the nodes in the order of their data; a cycle has none" if later else None,
    )
