"""The common form of all inputs of eqsat: a program whose sizes may be free, and its constants."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, Protocol, runtime_checkable

import numpy as np

from eqsat.lazy.open_inputs import OpenInput, TracedFunction
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.lazy.trace import TracedGraph
from eqsat.runtime.arrays import adopt
from eqsat.tensor import Tensor
from ir.diagnostics import Diagnostic, Kind, Severity, fail, note
from ir.dtype import TensorType, dtype
from ir.frontend import FrontendGraph, TensorInfo, parse_frontend, verify_frontend
from ir.grammar import with_article
from ir.host.memory import memory_for
from ir.tiny.bind import bind, load
from ir.tiny.check_calls import outputs_of
from ir.tiny.dims import match_shapes
from ir.tiny.graph import Graph
from ir.tiny.parse import parse, read_document
from ir.tiny.size_expr import SizeExpr
from ir.tiny.source import Source, check_dims

STAGE = "load"

Constants = Mapping[str, np.ndarray]
Shapes = Mapping[str, tuple[int, ...]]


class Length(NamedTuple):
    """An argument for the size of `symbol` in a call, which is at most `most`."""

    symbol: str
    most: int


@dataclass(frozen=True)
class BoundModel:
    """A model with all sizes known. constants: by tensor_id. results: names of the results (the outputs' ids if empty).
    notes: of the loader. lengths: by name, the arguments that tell the sizes of padded calls; they come last."""

    graph: Graph
    constants: Constants
    results: tuple[str, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    frontend: FrontendGraph | None = None
    lengths: Mapping[str, Length] = field(default_factory=dict)

    @cached_property
    def arguments(self) -> dict[str, TensorType]:
        """Types of the caller's arguments by name, in order."""
        return {name: type_ for name, type_ in self.signature.items() if name not in self.lengths}

    @cached_property
    def signature(self) -> dict[str, TensorType]:
        """Types of all arguments by name, in order."""
        types = {name: self.graph.types[node.id] for name, node in self.graph.inputs.items()}
        return {name: type_ for name, type_ in types.items() if name not in self.constants}

    def length_arrays(self, sizes: Mapping[str, int] | None = None) -> list[np.ndarray]:
        """The values of `lengths` for the sizes of a call by symbol; None: for the model's own sizes."""
        lengths = self.lengths.items()
        values = {name: one.most if sizes is None else sizes[one.symbol] for name, one in lengths}
        return [np.asarray(value, self.signature[name].dtype.numpy) for name, value in values.items()]

    @cached_property
    def outputs(self) -> list[tuple[str, TensorType]]:
        """Name and type of each result, in order."""
        ids = self.graph.outputs
        return [(name, self.graph.types[ref]) for name, ref in zip(self.results or ids, ids, strict=True)]


def _unused(symbols: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Warnings of sizes of symbols that the model does not have."""
    return tuple(
        note(Kind.UNBOUND_DIM, STAGE, f"dims= binds {symbol!r}, which no size uses", severity=Severity.WARNING)
        for symbol in symbols
    )


def zero_constants(graph: Graph, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Constants whose values play no part, for the inputs of a graph among these names: zeros that take no memory."""
    types = {name: graph.types[graph.inputs[name].id] for name in names if name in graph.inputs}
    return {name: np.broadcast_to(np.zeros((), type_.dtype.numpy), type_.shape) for name, type_ in types.items()}


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """A program whose sizes are not bound yet, with its constants and its known sizes. related: sizes that follow from
    others, by symbol. updates: result → the argument into which a call writes the result."""

    constants: Constants = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    related: Mapping[str, SizeExpr] = field(default_factory=dict)
    updates: Mapping[str, str] = field(default_factory=dict)

    @property
    @abstractmethod
    def declared(self) -> Mapping[str, TensorInfo]:
        """dtype and sizes (or symbols) of every input in order, including constants."""

    @abstractmethod
    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        """The model at these sizes. Raises EqsatError, UnboundDim, if a size stays unknown."""

    @property
    def document(self) -> dict[str, Any] | None:
        """The program as JSON-ready data that `read_model` reads, without its constants; None if the model has no
        program of its own."""
        return None

    @property
    def symbols(self) -> set[str]:
        """The symbols that stand for sizes of inputs."""
        return {size for shape in self._declared_shapes.values() for size in shape if isinstance(size, str)}

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments, in order."""
        return tuple(name for name in self.declared if name not in self.constants)

    def infer(self, shapes: Shapes) -> dict[str, int]:
        """All known sizes by symbol, from `dims` and from the shapes of constants and arguments.

        Raises:
            EqsatError: InputMismatch for another rank or fixed size, AxisSizeMismatch for a contradiction.
        """
        dims = match_shapes(self._declared_shapes, shapes, self._sizes_of_constants)
        complete = self.complete(dims)
        for symbol, size in dims.items():
            if complete[symbol] != size:
                message = f"{symbol} is {size}, and {self.related[symbol]} is {complete[symbol]}"
                fail(Kind.AXIS_SIZE_MISMATCH, STAGE, message, hint="dims= says that both are equal", sizes=dims)
        return complete

    def complete(self, dims: Mapping[str, int]) -> dict[str, int]:
        """The sizes, with those that follow from them."""
        related = {symbol: expr for symbol, expr in self.related.items() if dims.keys() >= set(expr.symbols)}
        return {**dims, **{symbol: expr.at(dims) for symbol, expr in related.items()}}

    @cached_property
    def _declared_shapes(self) -> Mapping[str, tuple[int | str, ...]]:
        return {name: tuple(info.shape) for name, info in self.declared.items()}

    @cached_property
    def _sizes_of_constants(self) -> Mapping[str, int]:
        """The sizes in `dims`, and those that the shapes of the constants tell."""
        return match_shapes(
            self._declared_shapes, {name: array.shape for name, array in self.constants.items()}, self.dims
        )

    def fail_unbound(self, free: Sequence[str]) -> NoReturn:
        """Raises EqsatError, UnboundDim, for a program that has no code yet, because these sizes are free."""
        shapes = [self.declared[name].shape for name in self.arguments]
        input_sizes = {size for shape in shapes for size in shape}
        hint = "give dims= when compiling" + (", or call the program once" if input_sizes.issuperset(free) else "")
        fail(Kind.UNBOUND_DIM, "program", f"no size is known for {', '.join(free)}", hint=hint, missing=free)

    def with_constants(self, given: Mapping[str, Any]) -> Model:
        """The model with copies of these arrays in place of arguments and of its own constants. None makes an argument
        of a constant.

        Raises:
            EqsatError: InputMismatch for a name that is no input, another dtype or shape, None for an argument;
                ResourceExceeded where the copies do not fit in memory.
        """
        if not isinstance(given, Mapping):
            hint = 'constants={"w": array}'
            fail(
                Kind.INVALID_OPTION,
                STAGE,
                f"constants= is a mapping, not {with_article(type(given).__name__)}",
                hint=hint,
            )
        unknown = [name for name in given if name not in self.declared]
        if unknown:
            fail(
                Kind.INPUT_MISMATCH,
                STAGE,
                f"constants= names no input: {', '.join(map(str, unknown))}",
                expected=list(self.declared),
            )
        values = {name: value for name, value in given.items() if value is not None}
        for name in given.keys() - values.keys() - self.constants.keys():
            message = f"constants= has None for {name!r}, which is an argument already"
            fail(Kind.INPUT_MISMATCH, STAGE, message, at=name, hint="an array, or no entry")
        arrays = {name: adopt(name, value, dtype(self.declared[name].dtype), None) for name, value in values.items()}
        with memory_for(
            sum(array.nbytes for array in arrays.values()), STAGE, "a copy of the constants", names=list(arrays)
        ):
            copies = {name: np.array(array) for name, array in arrays.items()}
        kept = {name: array for name, array in self.constants.items() if given.get(name, array) is not None}
        return replace(self, constants={**kept, **copies})


@dataclass(frozen=True, kw_only=True)
class TinyModel(Model):
    """A program in Tiny IR."""

    source: Source

    @property
    def document(self) -> dict[str, Any]:
        return self.source.to_json() | ({"dims": dict(self.dims)} if self.dims else {})

    @cached_property
    def declared(self) -> Mapping[str, TensorInfo]:
        inputs = self.source.inputs.items()
        return {tensor: TensorInfo(node.arg["dtype"], node.arg["shape"]) for tensor, node in inputs}

    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        own = {name for name in self.source.dims if name not in self.source.symbols}  # unused, but no error
        graph, notes = bind(self.source, {name: size for name, size in dims.items() if name not in own}, strict)
        results = outputs_of(self.source)
        return BoundModel(graph, self.constants, results if results != graph.outputs else (), notes)


@dataclass(frozen=True, kw_only=True)
class FrontendModel(Model):
    """A program in Frontend IR, lowered to Tiny IR at each binding."""

    frontend: FrontendGraph

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.frontend.to_json())
        return document

    @cached_property
    def declared(self) -> Mapping[str, TensorInfo]:
        return {i.tensor: self.frontend.tensors[i.tensor] for i in self.frontend.signature.inputs}

    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        from eqsat.frontends.frontend_to_tiny import frontend_to_tiny

        warnings = _unused([symbol for symbol in dims if symbol not in self.frontend.symbols])
        tiny, constants = frontend_to_tiny(self.frontend, dims, self.constants)
        graph, notes = load(tiny, strict=strict)
        results = tuple(output.tensor for output in self.frontend.signature.outputs)
        return BoundModel(graph, constants, results, (*warnings, *notes), self.frontend)


@runtime_checkable
class LowerableGraph(Protocol):
    """A graph of another library. inputs: dtype and sizes (or symbols) of every input in order, including constants.
    constants: its own, by name. dependent: the symbols whose sizes follow from others. results: the names of the
    results."""

    @property
    def inputs(self) -> Mapping[str, TensorInfo]: ...

    @property
    def constants(self) -> Constants: ...

    @property
    def dependent(self) -> Collection[str]: ...

    @property
    def results(self) -> tuple[str, ...]: ...

    def lower(self, dims: Mapping[str, int], constants: Constants) -> tuple[dict[str, Any], Constants]:
        """The Tiny graph at these sizes, and its constants by tensor_id. Raises EqsatError, UnboundDim, if a size stays
        unknown."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoweredModel(Model):
    """A graph of another library, lowered to Tiny IR at each binding."""

    source: LowerableGraph

    @property
    def declared(self) -> Mapping[str, TensorInfo]:
        return self.source.inputs

    def infer(self, shapes: Shapes) -> dict[str, int]:
        sizes, dependent = super().infer(shapes), self.source.dependent
        return {symbol: size for symbol, size in sizes.items() if symbol not in dependent} if dependent else sizes

    def bind(self, dims: Mapping[str, int], strict: bool) -> BoundModel:
        symbols = {size for info in self.declared.values() for size in info.shape}
        warnings = _unused([symbol for symbol in dims if symbol not in symbols])
        tiny, constants = self.source.lower(dims, self.constants)
        graph, notes = load(tiny, strict=strict)
        return BoundModel(graph, constants, self.source.results, (*warnings, *notes))


def read_model(source: Any, constants: Mapping[str, Any] | None = None, dims: Mapping[str, int] | None = None) -> Model:
    """The model in any form that `optimize_and_compile` takes, with these constants and sizes.

    Tiny IR (dict, Tiny text, JSON text or file, Source, Graph), lazy tensors (one, several, or by name, or a function
    of them by `tensor.program`), Frontend IR (dict, JSON text or file, FrontendGraph), ONNX (path ending in .onnx,
    bytes, ModelProto), torch (ExportedProgram), a LowerableGraph. A string is a program's text if it has a line break
    or a brace or begins with %, else a path. A text, or what a file holds, is Tiny text if it begins with a %id,
    `graph`, `dims` or `return`, or if the file's name ends in .tiny; else it is JSON.
    """
    model = _read(source)
    sized = replace(model, dims={**model.dims, **check_dims({} if dims is None else dims)})
    return sized.with_constants({} if constants is None else constants)


def _read(source: Any) -> Model:
    match source:
        case Tensor() | [Tensor(), *_]:
            tiny, own = tensor_to_tiny(source)
            return TinyModel(source=parse(tiny), constants=own)
        case TracedFunction():
            return LoweredModel(source=TracedGraph(source, source.inputs))
        case OpenInput():
            hint = 'tensor.program(lambda x: …, tensor.input("x", ("B", 8)))'
            fail(Kind.MALFORMED_GRAPH, STAGE, "an input whose sizes are symbols is no program", hint=hint)
        case LowerableGraph():
            return LoweredModel(source=source, constants=source.constants)
        case Graph():
            return _tiny(parse(source.to_json()))
        case Source():
            return _tiny(source)
        case FrontendGraph():
            verify_frontend(source)
            return FrontendModel(frontend=source)
        case [*_]:
            fail(Kind.MALFORMED_GRAPH, STAGE, "a list of outputs holds lazy tensors, one or more")
    if isinstance(source, Mapping):
        if any(isinstance(value, Tensor) for value in source.values()):
            tiny, own = tensor_to_tiny(source)
            return TinyModel(source=parse(tiny), constants=own)
        return _document(source)
    if isinstance(source, str | os.PathLike) and not str(source).endswith(".onnx"):
        return _document(read_document(source))
    if isinstance(source, str | os.PathLike | bytes) or type(source).__name__ == "ModelProto":
        from eqsat.frontends.onnx.load_onnx import load_onnx

        frontend, own = load_onnx(source)
        return FrontendModel(frontend=frontend, constants=own)
    if type(source).__name__ == "ExportedProgram":
        from eqsat.frontends.torch.load_exported import load_exported

        exported = load_exported(source)
        return LoweredModel(source=exported, constants=exported.constants)
    fail(
        Kind.MALFORMED_GRAPH,
        STAGE,
        f"{with_article(type(source).__name__)} is no program",
        hint="Tiny IR (text, dict, JSON or path), lazy tensors, Frontend IR, an ONNX model, or a torch ExportedProgram",
    )


def _document(document: Any) -> Model:
    """Frontend IR has a "signature" and a "graph"; Tiny IR lists uops."""
    if isinstance(document, Mapping) and ("graph" in document or "signature" in document):
        return FrontendModel(frontend=parse_frontend(document))
    return _tiny(parse(document))


def _tiny(source: Source) -> TinyModel:
    return TinyModel(source=source, dims=source.dims)
