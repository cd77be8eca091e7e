"""ONNX → Frontend IR: reads the model's protobuf; `eqsat.frontends.onnx_operators` converts the operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eqsat.failure.internal_error import public_call
from eqsat.frontends.onnx_operators import CONVERTERS, EVALUATORS, Operator, supported_operators
from ir.diagnostics import Kind, fail
from ir.dtype import dtype
from ir.frontend import (
    STAGE,
    FrontendGraph,
    FrontendNode,
    Signature,
    SignatureInput,
    SignatureOutput,
    TensorInfo,
    verify_frontend,
)

T = TypeVar("T")


@public_call()
def load_onnx(source: Any) -> tuple[FrontendGraph, dict[str, np.ndarray]]:
    """The model from a path, bytes or a ModelProto, and its constants by tensor name.

    Raises:
        EqsatError: UnsupportedOp that names the operator, MalformedGraph if the source is no ONNX model.
    """
    model = _read(source)
    opset = max((opset_id.version for opset_id in model.opset_import if opset_id.domain in ("", "ai.onnx")), default=1)
    known = {tensor.name: _array(tensor, tensor.name) for tensor in model.graph.initializer}
    nodes: list[FrontendNode] = []
    _check_operators(model.graph.node)
    for position, proto in enumerate(model.graph.node):
        operator = _operator(proto, position, known, opset)
        if operator.op in EVALUATORS:
            known[operator.outputs[0]] = _convert(EVALUATORS[operator.op], operator)
        else:
            nodes.append(_convert(CONVERTERS[operator.op], operator))
    read = {name for node in nodes for name in node.inputs} | {output.name for output in model.graph.output}
    constants = {name: value for name, value in known.items() if name in read}
    data = [value for value in model.graph.input if value.name not in known]
    graph = FrontendGraph(_signature(data, constants, model.graph.output), _tensors(data, constants), tuple(nodes))
    verify_frontend(graph)
    return graph, constants


def _read(source: Any) -> Any:
    try:
        import onnx
    except ImportError:
        fail(Kind.UNSUPPORTED_OP, STAGE, "reading ONNX needs the onnx package", hint="pip install 'eqsat[onnx]'")
    if isinstance(source, onnx.ModelProto):
        return source
    at = "bytes" if isinstance(source, bytes) else str(source)[:200]
    try:
        model = onnx.load_model_from_string(source) if isinstance(source, bytes) else onnx.load(str(Path(source)))
    except FileNotFoundError:
        fail(Kind.MALFORMED_GRAPH, STAGE, "no such file", at=at)
    except Exception as error:  # protobuf's own exceptions, broken external data
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not an ONNX model: {error}", at=at)
    if not model.graph.output:
        fail(Kind.MALFORMED_GRAPH, STAGE, "not an ONNX model: it has no outputs", at=at)
    if not all(isinstance(name, str) for name in _names(model.graph)):  # protobuf hands such a name out as bytes
        fail(Kind.MALFORMED_GRAPH, STAGE, "not an ONNX model: a name is not UTF-8", at=at)
    return model


def _names(graph: Any) -> Iterator[str | bytes]:
    """Every text of the graph that is read."""
    for item in (*graph.input, *graph.output):
        yield item.name
        yield from (size.dim_param for size in item.type.tensor_type.shape.dim)
    yield from (item.name for item in graph.initializer)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (item.name for item in node.attribute)


def _check_operators(protos: Sequence[Any]) -> None:
    """Raises EqsatError, UnsupportedOp, with every operator of the model that cannot be imported."""
    lacking: dict[str, str] = {}
    for position, proto in enumerate(protos):
        op = proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"
        if op not in CONVERTERS and op not in EVALUATORS:
            lacking.setdefault(op, _name(proto, position))
    if lacking:
        op, name = next(iter(lacking.items()))
        operators = (
            f"the ONNX operator {op} is" if len(lacking) == 1 else f"the ONNX operators {', '.join(lacking)} are"
        )
        fail(Kind.UNSUPPORTED_OP, STAGE, f"{operators} not supported", at=name, op=op, supported=supported_operators())


def _name(proto: Any, position: int) -> str:
    """A node's name, or else its operator's name with the node's position."""
    return proto.name or f"{proto.op_type.lower()}_{position}"


def _operator(proto: Any, position: int, known: Mapping[str, np.ndarray], opset: int) -> Operator:
    from onnx.helper import get_attribute_value

    name = _name(proto, position)
    if not any(proto.output):
        fail(Kind.MALFORMED_GRAPH, STAGE, "the node has no output", at=name, op=proto.op_type)
    try:
        attrs = {attribute.name: _attribute(get_attribute_value(attribute), name) for attribute in proto.attribute}
    except ValueError as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"an attribute cannot be read: {error}", at=name, op=proto.op_type)
    return Operator(name, proto.op_type, tuple(proto.input), tuple(proto.output), attrs, known, opset)


def _attribute(value: Any, at: str) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return _array(value, at) if type(value).__name__ == "TensorProto" else value


def _array(proto: Any, at: str) -> np.ndarray:
    from onnx.numpy_helper import to_array

    try:
        return np.asarray(to_array(proto))
    except Exception as error:  # onnx raises many types for a damaged tensor
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a constant cannot be read: {error}", at=at)


def _convert(convert: Callable[[Operator], T], operator: Operator) -> T:
    """Converts a node. Missing attributes, or attributes of another type, are reported as the model's error."""
    try:
        return convert(operator)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, MemoryError) as error:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"inputs or attributes do not fit the operator: {type(error).__name__} {error}",
            at=operator.name,
            op=operator.op,
            attributes=sorted(operator.attrs),
        )


def _signature(data: Sequence[Any], constants: Mapping[str, np.ndarray], outputs: Sequence[Any]) -> Signature:
    """Old models list initialisers among the inputs; here only what the caller passes is data."""
    params = [SignatureInput(name, "param", storage="const_pool") for name in constants]
    inputs = (*(SignatureInput(value.name) for value in data), *params)
    return Signature(inputs, tuple(SignatureOutput(output.name) for output in outputs))


def _tensors(data: Sequence[Any], constants: Mapping[str, np.ndarray]) -> dict[str, TensorInfo]:
    symbols: dict[str, str] = {}
    infos = {value.name: _info(value, symbols) for value in data}
    return infos | {name: TensorInfo(str(dtype(array.dtype)), array.shape) for name, array in constants.items()}


def _info(value: Any, symbols: dict[str, str]) -> TensorInfo:
    """dtype and sizes of a graph input; a size without a name is named after the input and the axis."""
    from onnx import TensorProto
    from onnx.helper import tensor_dtype_to_np_dtype

    kind = value.type.tensor_type
    if kind.elem_type not in TensorProto.DataType.values()[1:] or not kind.HasField("shape"):
        fail(Kind.UNSUPPORTED_OP, STAGE, "an input must be a tensor of known dtype and rank", at=value.name)
    shape = tuple(
        size.dim_value if size.HasField("dim_value") else _symbol(size.dim_param or f"{value.name}_{axis}", symbols)
        for axis, size in enumerate(kind.shape.dim)
    )
    return TensorInfo(str(dtype(np.dtype(tensor_dtype_to_np_dtype(kind.elem_type)))), shape)


def _symbol(name: str, symbols: dict[str, str]) -> str:
    """`name` as an identifier that no other name has."""
    if name not in symbols:
        symbol = re.sub(r"\W", "_", name) if not name[0].isdigit() else "_" + re.sub(r"\W", "_", name)
        while symbol in symbols.values():
            symbol += "_"
        symbols[name] = symbol
    return symbols[name]
