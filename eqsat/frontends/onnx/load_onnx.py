"""A ModelProto → Frontend IR: a node per node, whose op is an operator of the table (`onnx.Slice-10`).

Initializers and `Constant` nodes become constants. Integers of 2 and 4 bits stay packed: a node `Unpack` makes their
tensor of the bytes. A graph in an attribute becomes a `Subgraph`: the tensors that it
reads from outside are further inputs of its node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from eqsat.failure.internal_error import public_call
from eqsat.frontends.onnx.decode import constant_of, decode_array, decode_attribute, packed_bytes
from eqsat.frontends.onnx.element_types import PACKED_TYPES, element_type
from eqsat.frontends.onnx.lift_weights import Weights
from eqsat.frontends.onnx.model_operators import STORED, opsets
from eqsat.frontends.onnx.module_of import module_of
from eqsat.frontends.onnx.operator_table import find_operator, plain_domain
from eqsat.frontends.onnx.read_onnx import read_onnx
from eqsat.frontends.onnx.subgraph import Subgraph
from ir.diagnostics import EqsatError, Kind, fail
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
from ir.names import new_name

Names = dict[str, str]
"""The name in Frontend IR of every tensor that a graph may read."""


_PACKED_OPERANDS = {
    ("", "QuantizeLinear"): (2, "output_dtype"),
    ("com.microsoft", "QuantizeLinear"): (2, "output_dtype"),
    ("com.microsoft", "GatherBlockQuantized"): (0, "data_type"),
}
"""Operators that must know whether an operand was packed: its place, and the attribute that takes its type."""


@public_call()
def load_onnx(source: Any) -> tuple[FrontendGraph, dict[str, np.ndarray]]:
    """The model from a path, bytes or a ModelProto, and its constants by tensor name.

    Raises:
        EqsatError: UnsupportedOp that names the operators, MalformedGraph if the source is no ONNX model.
    """
    model, weights = read_onnx(source)
    reader = _NodeReader(opsets(model), weights)
    names: Names = {value.name: value.name for value in model.graph.input}
    nodes = reader.read(model.graph, names, "")
    read = {name for node in nodes for name in node.inputs} | {output.name for output in model.graph.output}
    constants = {name: value for name, value in reader.constants.items() if name in read}
    stored = {tensor.name for tensor in model.graph.initializer}
    data = [value for value in model.graph.input if value.name not in stored]
    _refuse_packed(data, "an argument")
    _refuse_packed(model.graph.output, "a result")
    graph = FrontendGraph(_signature(data, constants, model.graph.output), _tensors(data, constants), nodes)
    verify_frontend(graph)
    return graph, constants


class _NodeReader:
    """Reads the nodes of graphs, and keeps their constants."""

    def __init__(self, versions: Mapping[str, int], weights: Weights) -> None:
        """versions: the opset of each domain. weights: the raw data of initializers of the model's own graph."""
        self._versions, self._weights = versions, weights
        self.constants: dict[str, np.ndarray] = {}
        self._packed: dict[str, int] = {}

    def read(self, graph: Any, names: Names, prefix: str) -> tuple[FrontendNode, ...]:
        """The nodes of a graph. Adds the tensors that the graph defines to `names`, with this prefix."""
        if graph.sparse_initializer:
            fail(Kind.UNSUPPORTED_OP, STAGE, "sparse initializers are not supported", at=graph.name)
        nodes = []
        for tensor in graph.initializer:
            raw = None if prefix else self._weights.get(tensor.name)
            if tensor.data_type in PACKED_TYPES:
                nodes.append(self._unpack(tensor, tensor.name, names, prefix, raw))
            else:
                self._keep(tensor.name, decode_array(tensor, tensor.name, raw), names, prefix)
        for position, proto in enumerate(graph.node):
            name = prefix + (proto.name or f"{proto.op_type.lower()}_{position}")
            if not any(proto.output):
                fail(Kind.MALFORMED_GRAPH, STAGE, "the node has no output", at=name, op=proto.op_type)
            if proto.op_type != STORED or plain_domain(proto.domain):
                nodes.append(self._node(proto, name, names, prefix))
            elif proto.attribute[:1] and proto.attribute[0].t.data_type in PACKED_TYPES:
                nodes.append(self._unpack(proto.attribute[0].t, proto.output[0], names, prefix))
            else:
                self._keep(proto.output[0], constant_of(proto, name), names, prefix)
        return tuple(nodes)

    def _keep(self, name: str, value: np.ndarray, names: Names, prefix: str) -> None:
        names[name] = prefix + name
        self.constants[prefix + name] = value

    def _unpack(self, proto: Any, name: str, names: Names, prefix: str, raw: np.ndarray | None = None) -> FrontendNode:
        """Keeps the bytes of packed integers. The node makes the tensor `name` of them."""
        own, packed = prefix + name, PACKED_TYPES[proto.data_type]
        names[name] = own
        self._packed[own] = proto.data_type
        self.constants[f"{own}/packed_bytes"] = packed_bytes(proto, name, raw)
        attrs = {"bits": packed.bits, "signed": packed.signed, "shape": tuple(proto.dims)}
        return FrontendNode("Unpack", own, (f"{own}/packed_bytes",), (own,), attrs=attrs)

    def _node(self, proto: Any, name: str, names: Names, prefix: str) -> FrontendNode:
        domain = plain_domain(proto.domain)
        operator = find_operator(domain, proto.op_type, self._versions.get(domain, 1))
        assert operator is not None
        bodies = {item.name: item.g for item in proto.attribute if item.HasField("g")}
        attrs = {item.name: decode_attribute(item, name) for item in proto.attribute if item.name not in bodies}
        inner = {key: self._subgraph(body, names, f"{name}/{key}/") for key, body in bodies.items()}
        captures = tuple(dict.fromkeys(capture for body in inner.values() for capture in body.captures))
        for key, body in inner.items():
            attrs[key] = msgspec.to_builtins(msgspec.structs.replace(body, captures=captures))
        inputs = tuple(names.get(name, prefix + name) if name else "" for name in proto.input)
        place, attribute = _PACKED_OPERANDS.get((domain, proto.op_type), (len(inputs), ""))
        if place < len(inputs) and inputs[place] in self._packed:
            attrs[attribute] = self._packed[inputs[place]]
        for output in filter(None, proto.output):
            names[output] = prefix + output
        outputs = tuple(prefix + output if output else "" for output in proto.output)
        return FrontendNode(operator.id, name, (*inputs, *captures), outputs, attrs=attrs, tag=module_of(proto))

    def _subgraph(self, graph: Any, outer: Names, prefix: str) -> Subgraph:
        """The graph in an attribute. Its captures are tensors of the outer graph."""
        names = dict(outer) | {value.name: prefix + value.name for value in graph.input}
        nodes = self.read(graph, names, prefix)
        outputs = tuple(names.get(value.name, prefix + value.name) for value in graph.output)
        inputs = tuple(names[value.name] for value in graph.input)
        own = {*inputs, *(output for node in nodes for output in node.outputs)}
        read = dict.fromkeys([*(name for node in nodes for name in node.inputs), *outputs])
        return Subgraph(inputs, tuple(name for name in read if name and name not in own), outputs, nodes)


def _signature(data: Sequence[Any], constants: Mapping[str, np.ndarray], outputs: Sequence[Any]) -> Signature:
    """Old models list initializers among the inputs; here only what the caller passes is data."""
    params = [SignatureInput(name, "param", storage="const_pool") for name in constants]
    inputs = (*(SignatureInput(value.name) for value in data), *params)
    return Signature(inputs, tuple(SignatureOutput(output.name) for output in outputs))


def _tensors(data: Sequence[Any], constants: Mapping[str, np.ndarray]) -> dict[str, TensorInfo]:
    symbols: dict[str, str] = {}
    infos = {value.name: _info(value, symbols) for value in data}
    return infos | {name: TensorInfo(str(dtype(array.dtype)), array.shape) for name, array in constants.items()}


def _refuse_packed(values: Sequence[Any], what: str) -> None:
    """Raises EqsatError, UnsupportedOp, for an argument or a result of packed integers."""
    for value in values:
        if value.type.tensor_type.elem_type in PACKED_TYPES:
            packed = PACKED_TYPES[value.type.tensor_type.elem_type]
            message = f"{what} of {packed.bits}-bit integers is not supported"
            hint = f"a Cast between it and {packed.dtype.numpy.name} in the model, or an initializer"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=value.name, hint=hint)


def _info(value: Any, symbols: dict[str, str]) -> TensorInfo:
    """dtype and sizes of a graph input; a size without a name is named after the input and the axis."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        fail(Kind.UNSUPPORTED_OP, STAGE, "an input must be a tensor of known rank", at=value.name)
    try:
        element = element_type(kind.elem_type)
    except EqsatError as error:
        raise error.locate(at=value.name, op="input") from None
    shape = tuple(
        size.dim_value if size.HasField("dim_value") else _symbol(size.dim_param or f"{value.name}_{axis}", symbols)
        for axis, size in enumerate(kind.shape.dim)
    )
    return TensorInfo(element.name, shape)


def _symbol(name: str, symbols: dict[str, str]) -> str:
    """`name` as an identifier that no other name has."""
    if name not in symbols:
        symbol = re.sub(r"\W", "_", name) if not name[0].isdigit() else "_" + re.sub(r"\W", "_", name)
        symbols[name] = new_name(symbol, symbols.values())
    return symbols[name]
