"""ONNX → Frontend IR: one function per operator turns attributes into ours; constants are evaluated here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import dtype
from ir.frontend import (
    STAGE,
    FrontendGraph,
    Node,
    Signature,
    SignatureInput,
    SignatureOutput,
    TensorInfo,
    verify_frontend,
)

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Operator:
    """One ONNX node as the converters see it: `known` are the inputs whose value is a constant."""

    name: str
    op: str
    inputs: tuple[str, ...]
    output: str
    attrs: Attributes
    known: Mapping[str, np.ndarray]
    opset: int

    def constant(self, position: int, what: str) -> np.ndarray:
        """The value of an input that must be known when the model is imported."""
        name = self.inputs[position]
        if name not in self.known:
            fail(
                Kind.UNSUPPORTED_OP,
                STAGE,
                f"{what} must be a constant of the model",
                at=self.name,
                op=self.op,
                input=name,
            )
        return self.known[name]

    def node(self, op: str, fn: str | None = None, inputs: Sequence[str] | None = None, **attrs: Any) -> Node:
        return Node(op, self.name, tuple(inputs if inputs is not None else self.inputs), (self.output,), fn, attrs)


Converter = Callable[[Operator], Node]
CONVERTERS: dict[str, Converter] = {}


def supported() -> list[str]:
    """The ONNX operators that can be imported."""
    return sorted({*CONVERTERS, *_CONSTANT_OPERATORS})


def load_onnx(source: Any) -> tuple[FrontendGraph, dict[str, np.ndarray]]:
    """The model of a path, of bytes or of a ModelProto, and its constants by tensor name.

    Raises:
        EqsatError: UnsupportedOp naming the operator, MalformedGraph for what is no ONNX model.
    """
    model = _read(source)
    opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=1)
    known = {each.name: _array(each) for each in model.graph.initializer}
    nodes: list[Node] = []
    for position, proto in enumerate(model.graph.node):
        operator = _operator(proto, position, known, opset)
        if operator.op in _CONSTANT_OPERATORS:
            known[operator.output] = _CONSTANT_OPERATORS[operator.op](operator)
        else:
            nodes.append(_convert(operator))
    read = {name for node in nodes for name in node.inputs} | {each.name for each in model.graph.output}
    constants = {name: value for name, value in known.items() if name in read}
    data = [each for each in model.graph.input if each.name not in known]
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
    try:
        return onnx.load_model_from_string(source) if isinstance(source, bytes) else onnx.load(str(Path(source)))
    except FileNotFoundError:
        fail(Kind.MALFORMED_GRAPH, STAGE, "no such file", at=str(source))
    except Exception as error:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"not an ONNX model: {error}", at=str(source)[:200])


def _operator(proto: Any, position: int, known: Mapping[str, np.ndarray], opset: int) -> Operator:
    from onnx.helper import get_attribute_value

    attrs = {each.name: _attribute(get_attribute_value(each)) for each in proto.attribute}
    name = proto.name or f"{proto.op_type.lower()}_{position}"
    if proto.domain not in ("", "ai.onnx"):
        _unsupported(f"{proto.domain}.{proto.op_type}", name)
    return Operator(name, proto.op_type, tuple(proto.input), proto.output[0], attrs, known, opset)


def _attribute(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return _array(value) if type(value).__name__ == "TensorProto" else value


def _array(proto: Any) -> np.ndarray:
    from onnx.numpy_helper import to_array

    return np.asarray(to_array(proto))


def _convert(operator: Operator) -> Node:
    converter = CONVERTERS.get(operator.op)
    if converter is None:
        _unsupported(operator.op, operator.name)
    return converter(operator)


def _unsupported(op: str, name: str) -> NoReturn:
    fail(Kind.UNSUPPORTED_OP, STAGE, f"the ONNX operator {op} is not supported", at=name, op=op, supported=supported())


def _signature(data: Sequence[Any], constants: Mapping[str, np.ndarray], outputs: Sequence[Any]) -> Signature:
    """Old models list their initialisers among the inputs; only what the caller passes is data."""
    params = [SignatureInput(name, "param", storage="const_pool") for name in constants]
    inputs = (*(SignatureInput(each.name) for each in data), *params)
    return Signature(inputs, tuple(SignatureOutput(each.name) for each in outputs))


def _tensors(data: Sequence[Any], constants: Mapping[str, np.ndarray]) -> dict[str, TensorInfo]:
    typed = {each.name: _info(each) for each in data}
    return typed | {name: TensorInfo(str(dtype(each.dtype)), each.shape) for name, each in constants.items()}


def _info(value: Any) -> TensorInfo:
    from onnx.helper import tensor_dtype_to_np_dtype

    kind = value.type.tensor_type
    shape = tuple(
        size.dim_value if size.HasField("dim_value") else size.dim_param or f"{value.name}_{axis}"
        for axis, size in enumerate(kind.shape.dim)
    )
    return TensorInfo(str(dtype(np.dtype(tensor_dtype_to_np_dtype(kind.elem_type)))), shape)


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Register the converter of ONNX operators."""

    def register(convert: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, convert))
        return convert

    return register


def _pads(operator: Operator) -> list[list[int]]:
    """ONNX's [top, left, bottom, right] as (before, after) per axis; automatic padding is refused."""
    if operator.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        fail(
            Kind.UNSUPPORTED_OP,
            STAGE,
            f"auto_pad={operator.attrs['auto_pad']}",
            at=operator.name,
            op=operator.op,
            hint="export the model with explicit pads",
        )
    pads = list(operator.attrs.get("pads", (0, 0, 0, 0)))
    half = len(pads) // 2
    return [[pads[axis], pads[axis + half]] for axis in range(half)]


@converts("Conv")
def _conv(o: Operator) -> Node:
    return o.node(
        "Conv",
        stride=list(o.attrs.get("strides", (1, 1))),
        pad=_pads(o),
        dilation=list(o.attrs.get("dilations", (1, 1))),
        groups=o.attrs.get("group", 1),
    )


@converts("BatchNormalization")
def _batch_norm(o: Operator) -> Node:
    if o.attrs.get("training_mode") or (o.opset < 7 and not o.attrs.get("is_test")):
        fail(Kind.UNSUPPORTED_OP, STAGE, "batch norm in training mode", at=o.name, op=o.op)
    return o.node("BatchNorm", eps=o.attrs.get("epsilon", 1e-5))


@converts(
    "Add",
    "Sum",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Log",
    "Sqrt",
    "Neg",
    "Abs",
    "Erf",
)
def _elementwise(o: Operator) -> Node:
    if o.attrs.get("broadcast") and o.opset < 7:
        fail(Kind.UNSUPPORTED_OP, STAGE, "the broadcast attribute of opset < 7", at=o.name, op=o.op)
    return o.node("Elementwise", {"Sum": "add", "Div": "fdiv"}.get(o.op, o.op.lower()))


@converts("MaxPool", "AveragePool")
def _pool(o: Operator) -> Node:
    if o.attrs.get("ceil_mode"):
        fail(Kind.UNSUPPORTED_OP, STAGE, "pooling with ceil_mode", at=o.name, op=o.op)
    kernel = list(o.attrs["kernel_shape"])
    stride = list(o.attrs.get("strides", [1] * len(kernel)))
    if o.op == "MaxPool":
        return o.node(
            "Pool", "max", kernel=kernel, stride=stride, pad=_pads(o), dilation=list(o.attrs.get("dilations", (1, 1)))
        )
    include = bool(o.attrs.get("count_include_pad", 0))
    return o.node("Pool", "avg", kernel=kernel, stride=stride, pad=_pads(o), count_include_pad=include)


@converts("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(o: Operator) -> Node:
    return o.node("GlobalPool", "max" if o.op == "GlobalMaxPool" else "avg")


@converts("Gemm")
def _gemm(o: Operator) -> Node:
    return o.node(
        "GEMM",
        trans_a=o.attrs.get("transA", 0),
        trans_b=o.attrs.get("transB", 0),
        alpha=o.attrs.get("alpha", 1.0),
        beta=o.attrs.get("beta", 1.0),
    )


@converts("MatMul")
def _matmul(o: Operator) -> Node:
    return o.node("MatMul")


@converts("Softmax")
def _softmax(o: Operator) -> Node:
    if o.opset < 13 and o.attrs.get("axis", 1) not in (-1,) and o.attrs.get("axis", 1) != 1:
        fail(Kind.UNSUPPORTED_OP, STAGE, "softmax of a flattened tensor (opset < 13)", at=o.name, op=o.op)
    return o.node("Softmax", axis=o.attrs.get("axis", -1 if o.opset >= 13 else 1))


@converts("Reshape")
def _reshape(o: Operator) -> Node:
    shape = o.attrs["shape"] if o.opset < 5 else o.constant(1, "the shape").tolist()
    return o.node("Reshape", inputs=o.inputs[:1], shape=list(shape))


@converts("Flatten")
def _flatten(o: Operator) -> Node:
    return o.node("Flatten", axis=o.attrs.get("axis", 1))


@converts("Transpose")
def _transpose(o: Operator) -> Node:
    attrs = {"perm": list(o.attrs["perm"])} if "perm" in o.attrs else {}
    return Node("Transpose", o.name, o.inputs, (o.output,), attrs=attrs)


@converts("Concat")
def _concat(o: Operator) -> Node:
    return o.node("Concat", axis=o.attrs.get("axis", 1))


@converts("Identity", "Dropout")
def _identity(o: Operator) -> Node:
    return o.node("Identity", inputs=o.inputs[:1])


def _constant(o: Operator) -> np.ndarray:
    return np.asarray(next(iter(o.attrs.values())))


def _constant_of_shape(o: Operator) -> np.ndarray:
    value = np.asarray(o.attrs.get("value", np.zeros(1, np.float32)))
    return np.full(o.constant(0, "the shape").tolist(), value.reshape(-1)[0])


_CONSTANT_OPERATORS: Mapping[str, Callable[[Operator], np.ndarray]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
}
