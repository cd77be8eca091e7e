"""A path, bytes or a ModelProto → a ModelProto in which every operator is in the table."""

from __future__ import annotations

import io
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

from eqsat.frontends.onnx import operators as operators  # fills the table
from eqsat.frontends.onnx.expand_functions import expand_functions
from eqsat.frontends.onnx.lift_weights import Weights, WireError, lift_weights
from eqsat.frontends.onnx.model_operators import missing_operators, operator_name
from eqsat.frontends.onnx.operator_table import supported_operators
from ir.diagnostics import Kind, fail
from ir.frontend import STAGE


def read_onnx(source: Any) -> tuple[Any, Weights]:
    """The model, and the raw data of the large initializers that it lacks.

    Raises:
        EqsatError: MalformedGraph if the source is no ONNX model, UnsupportedOp with every operator that is missing.
    """
    weights: Weights = {}
    model = parse_onnx(source, weights)
    model = expand_functions(model)
    missing = missing_operators(model)
    if missing:
        names = list(dict.fromkeys(operator_name(node.domain, node.op_type) for node in missing))
        operators = f"operator {names[0]} is" if len(names) == 1 else f"operators {', '.join(names)} are"
        fail(
            Kind.UNSUPPORTED_OP,
            STAGE,
            f"the ONNX {operators} not supported",
            at=missing[0].name or next(iter(missing[0].output), ""),
            op=names[0],
            hint=_way_out(names[0]),
        )
    return model, weights


def _way_out(missing: str) -> str:
    near = get_close_matches(missing.rpartition(".")[2], supported_operators(), 1, 0.75)
    instead = f"{near[0]}, which is supported" if near else "operators that are supported"
    return f"export the model with {instead}: `eqsat doctor` says which of a model's operators are"


def parse_onnx(source: Any, weights: Weights | None = None) -> Any:
    """The ModelProto as it is written, but for the large initializers of a path or of bytes: `weights` takes their raw
    data, if it is given. Raises EqsatError, MalformedGraph, if the source is no ONNX model."""
    try:
        import onnx
    except ImportError:
        fail(Kind.UNSUPPORTED_OP, STAGE, "reading ONNX needs the onnx package", hint="pip install 'eqsat[onnx]'")
    at = "a ModelProto"
    if isinstance(source, onnx.ModelProto):
        model = source
    else:
        at = "bytes" if isinstance(source, bytes) else str(source)[:200]
        model = _load(onnx, source, at, weights)
    if not model.graph.output:
        fail(Kind.MALFORMED_GRAPH, STAGE, "not an ONNX model: it has no outputs", at=at)
    if not all(isinstance(name, str) for name in _texts(model)):  # protobuf hands such a name out as bytes
        fail(Kind.MALFORMED_GRAPH, STAGE, "not an ONNX model: a name is not UTF-8", at=at)
    return model


def _load(onnx: Any, source: Any, at: str, weights: Weights | None) -> Any:
    """The model of bytes, or of a file with its external data. Files of other names than `.onnx` may be texts."""
    try:
        if isinstance(source, bytes) or Path(source).suffix == ".onnx":
            with io.BytesIO(source) if isinstance(source, bytes) else Path(source).open("rb") as file:
                model = onnx.load_model_from_string(_serialized(file, weights))
        else:
            model = onnx.load(str(Path(source)), load_external_data=False)
    except FileNotFoundError:
        fail(Kind.MALFORMED_GRAPH, STAGE, "no such file", at=at)
    except Exception as error:  # protobuf's own exceptions
        hint = (
            "give an ONNX model: Tiny text and JSON are not read here" if str(at).endswith((".tiny", ".json")) else None
        )
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not an ONNX model: {error}", at=at, hint=hint)
    if isinstance(source, bytes):
        return model
    try:
        onnx.load_external_data_for_model(model, str(Path(source).resolve().parent))
    except Exception as error:  # onnx raises many types
        message, hint = f"the external data cannot be read: {error}", "copy its files to the folder of the model"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, at=at, hint=hint)
    return model


def _serialized(file: BinaryIO, weights: Weights | None) -> bytes:
    """The bytes of the file, without those that `weights` takes."""
    if weights is not None and file.seekable():
        try:
            text, lifted = lift_weights(file)
        except WireError:  # protobuf's own message is better
            file.seek(0)
        else:
            weights |= lifted
            return text
    return file.read()


def _texts(model: Any) -> Iterator[str | bytes]:
    """Every text of the model that is read."""
    yield from (opset.domain for opset in model.opset_import)
    for function in model.functions:
        yield from (function.domain, function.name, *function.input, *function.output, *function.attribute)
        for node in function.node:
            yield from _texts_of_node(node)
    yield from _texts_of_graph(model.graph)


def _texts_of_graph(graph: Any) -> Iterator[str | bytes]:
    yield graph.name
    for item in (*graph.input, *graph.output):
        yield item.name
        yield from (size.dim_param for size in item.type.tensor_type.shape.dim)
    yield from (item.name for item in graph.initializer)
    for node in graph.node:
        yield from _texts_of_node(node)


def _texts_of_node(node: Any) -> Iterator[str | bytes]:
    yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for attribute in node.attribute:
        yield from (attribute.name, attribute.ref_attr_name)
        for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield from _texts_of_graph(inner)
