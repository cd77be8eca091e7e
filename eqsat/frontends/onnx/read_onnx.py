"""A path, bytes or a ModelProto → a ModelProto in which every operator is in the table.

Functions of the model, and operators that ONNX itself defines by a function, are replaced by their bodies.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from eqsat.frontends.onnx import operators as operators  # fills the table
from eqsat.frontends.onnx.lift_weights import Weights, WireError, lift_weights
from eqsat.frontends.onnx.operator_table import find_operator, plain_domain, supported_operators
from ir.diagnostics import Kind, fail
from ir.frontend import STAGE

STORED = "Constant"
"""The operator that becomes a constant of the graph, and has no lowering."""


def read_onnx(source: Any) -> tuple[Any, Weights]:
    """The model, and the raw data of the large initializers that it lacks.

    Raises:
        EqsatError: MalformedGraph if the source is no ONNX model, UnsupportedOp with every operator that is missing.
    """
    weights: Weights = {}
    model = parse_onnx(source, weights)
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    model = _expand_operators(model)
    missing = _missing_operators(model)
    if missing:
        names = list(dict.fromkeys(operator_name(node.domain, node.op_type) for node in missing))
        operators = f"operator {names[0]} is" if len(names) == 1 else f"operators {', '.join(names)} are"
        fail(
            Kind.UNSUPPORTED_OP,
            STAGE,
            f"the ONNX {operators} not supported",
            at=missing[0].name or next(iter(missing[0].output), ""),
            op=names[0],
            supported=supported_operators(),
        )
    return model, weights


def opsets(model: Any) -> Mapping[str, int]:
    """The opset that the model uses of each domain."""
    return {plain_domain(opset.domain): opset.version for opset in model.opset_import}


def all_nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the graphs in their attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from all_nodes(inner)


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


def _missing_operators(model: Any) -> list[Any]:
    """The nodes whose operators are not in the table."""
    versions = opsets(model)
    return [
        node
        for node in all_nodes(model.graph)
        if (plain_domain(node.domain), node.op_type) != ("", STORED)
        and find_operator(node.domain, node.op_type, versions.get(plain_domain(node.domain), 1)) is None
    ]


def _expand_operators(model: Any) -> Any:
    """The model with the bodies of the operators that the table lacks, where ONNX defines them by a function."""
    while True:
        missing = {
            (node.domain, node.op_type)
            for node in _missing_operators(model)
            if has_body(node.domain, node.op_type, opsets(model).get(plain_domain(node.domain), 1))
        }
        if not missing:
            return model
        from onnx.inliner import inline_selected_functions

        try:
            expanded = inline_selected_functions(model, sorted(missing), inline_schema_functions=True)
        except RuntimeError:  # onnx 1.23 fails where an optional input is left out
            return model
        if expanded == model:
            return model
        model = expanded


def has_body(domain: str, op: str, opset: int) -> bool:
    """Whether ONNX defines the operator by a function."""
    from onnx import defs

    try:
        schema = defs.get_schema(op, opset, plain_domain(domain))
    except defs.SchemaError:  # no such operator at this opset
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def operator_name(domain: str, name: str) -> str:
    """The operator's name, with its domain if that is not ONNX's own."""
    return f"{plain_domain(domain)}.{name}" if plain_domain(domain) else name
