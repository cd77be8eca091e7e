"""What a caller may hand in, as one thing: a program whose sizes may be free, and the constants that it carries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from eqsat.arrays import adopt
from eqsat.tensor import Tensor
from eqsat.tensor_to_tiny import tensor_to_tiny
from ir.diagnostics import Diagnostic, Kind, fail
from ir.dtype import TensorType
from ir.frontend import FrontendGraph, parse_frontend
from ir.tiny import Graph
from ir.tiny_bind import bind, infer_dims, load
from ir.tiny_parse import Source, parse, program_text

Constants = Mapping[str, np.ndarray]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class BoundModel:
    """A model with every size known: its Tiny graph, the constants by tensor_id, and what was noted on the way."""

    graph: Graph
    constants: Constants
    notes: tuple[Diagnostic, ...] = ()
    frontend: FrontendGraph | None = None

    @property
    def signature(self) -> dict[str, TensorType]:
        """What the caller passes, by name, in order."""
        types = {name: self.graph.types[node.id] for name, node in self.graph.inputs.items()}
        return {name: type_ for name, type_ in types.items() if name not in self.constants}


class Model(Protocol):
    """A program before its sizes are bound."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names that the caller passes, in order."""
        ...

    def infer(self, shapes: Shapes) -> dict[str, int]:
        """Sizes by symbol, from the shapes of the arguments."""
        ...

    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        """The model at these sizes. Raises EqsatError, UnboundDim where a size stays unknown."""
        ...


@dataclass(frozen=True)
class TinyModel:
    """Tiny IR, as read."""

    source: Source
    constants: Constants = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[str, ...]:
        names = (node.arg["tensor_id"] for node in self.source.uops if node.uop == "INPUT")
        return tuple(dict.fromkeys(name for name in names if name not in self.constants))

    def infer(self, shapes: Shapes) -> dict[str, int]:
        return infer_dims(self.source, {**{name: each.shape for name, each in self.constants.items()}, **shapes})

    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        graph, notes = bind(self.source, dims, strict)
        return BoundModel(graph, checked_constants(graph, self.constants), notes)


@dataclass(frozen=True)
class FrontendModel:
    """High-level ops, lowered to Tiny at each binding."""

    frontend: FrontendGraph
    constants: Constants

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(each.tensor for each in self.frontend.signature.inputs if each.tensor not in self.constants)

    def infer(self, shapes: Shapes) -> dict[str, int]:
        dims: dict[str, int] = {}
        for name, shape in shapes.items():
            declared = self.frontend.tensors[name].shape
            if len(declared) != len(shape):
                fail(Kind.INPUT_MISMATCH, "call", "another rank", at=name, expected=declared, found=shape)
            for size, found in zip(declared, shape, strict=True):
                if isinstance(size, str) and dims.setdefault(size, found) != found:
                    fail(Kind.AXIS_SIZE_MISMATCH, "call", f"{size} is {dims[size]} and {found}", at=name, found=shape)
        return dims

    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        from eqsat.frontend_to_tiny import frontend_to_tiny

        tiny, constants = frontend_to_tiny(self.frontend, dims, self.constants)
        graph, notes = load(tiny, strict=strict)
        return BoundModel(graph, constants, notes, self.frontend)


def read_model(source: Any, constants: Constants) -> Model:
    """The model in any of the forms that `optimize_and_compile` takes.

    Tiny IR (dict, JSON text or file, Source, Graph), lazy tensors (one or several), Frontend IR (dict, JSON text or
    file, FrontendGraph), ONNX (path ending in .onnx, bytes, ModelProto).
    """
    match source:
        case Tensor() | [Tensor(), *_]:
            tiny, own = tensor_to_tiny(source)
            return TinyModel(parse(tiny), {**own, **constants})
        case Graph():
            return TinyModel(parse(source.to_json()), constants)
        case Source():
            return TinyModel(source, constants)
        case FrontendGraph():
            return FrontendModel(source, constants)
        case Mapping():
            is_frontend = "graph" in source or "signature" in source
            return (
                FrontendModel(parse_frontend(source), constants) if is_frontend else TinyModel(parse(source), constants)
            )
        case str() | os.PathLike() if not str(source).endswith(".onnx"):
            text = program_text(source)
            is_frontend = '"uops"' not in text and ('"signature"' in text or '"graph"' in text)
            return FrontendModel(parse_frontend(text), constants) if is_frontend else TinyModel(parse(text), constants)
    if isinstance(source, str | os.PathLike | bytes) or type(source).__name__ == "ModelProto":
        from eqsat.onnx_to_frontend import load_onnx

        frontend, own = load_onnx(source)
        return FrontendModel(frontend, {**own, **constants})
    fail(
        Kind.MALFORMED_GRAPH,
        "load",
        f"a {type(source).__name__} is no program",
        hint="Tiny IR as a dict, JSON or a path; lazy tensors; Frontend IR; an ONNX model",
    )


def checked_constants(graph: Graph, constants: Constants) -> dict[str, np.ndarray]:
    """The constants in the dtype and shape that the graph declares; InputMismatch otherwise or for unknown names."""
    unknown = sorted(constants.keys() - graph.inputs.keys())
    if unknown:
        fail(
            Kind.INPUT_MISMATCH,
            "load",
            f"constants= names no input: {', '.join(unknown)}",
            expected=list(graph.inputs),
        )
    types = {name: graph.types[graph.inputs[name].id] for name in constants}
    return {name: adopt(name, value, types[name].dtype, types[name].shape) for name, value in constants.items()}
