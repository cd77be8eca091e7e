"""The ONNX operators that can be imported, with one function each that converts a node to Frontend IR."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ir.diagnostics import Kind, fail
from ir.frontend import STAGE, FrontendNode
from ir.host.memory import memory_for

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Operator:
    """One ONNX node, as the converters see it. known: the values of constant inputs."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attributes
    known: Mapping[str, np.ndarray]
    opset: int

    def constant(self, position: int, what: str) -> np.ndarray:
        """The value of an input that must be a constant. Raises EqsatError, UnsupportedOp, if it is not."""
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

    def node(self, op: str, fn: str | None = None, inputs: Sequence[str] | None = None, **attrs: Any) -> FrontendNode:
        return FrontendNode(
            op, self.name, tuple(inputs if inputs is not None else self.inputs), self.outputs, fn, attrs
        )


Converter = Callable[[Operator], FrontendNode]
CONVERTERS: dict[str, Converter] = {}


def supported_operators() -> list[str]:
    """The ONNX operators that can be imported."""
    return sorted({*CONVERTERS, *EVALUATORS})


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Registers the converter of ONNX operators."""

    def register(convert: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, convert))
        return convert

    return register


def _pads(operator: Operator) -> list[list[int]] | str:
    """ONNX's [top, left, bottom, right] as (before, after) per axis; or "same_upper" or "same_lower"."""
    automatic = operator.attrs.get("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        return str(automatic).lower()
    if automatic not in ("NOTSET", "VALID"):
        _refuse(operator, f"auto_pad={automatic}")
    pads = list(operator.attrs.get("pads", (0, 0, 0, 0))) if automatic == "NOTSET" else [0, 0, 0, 0]
    half = len(pads) // 2
    return [[pads[axis], pads[axis + half]] for axis in range(half)]


def _refuse(operator: Operator, message: str, hint: str | None = None) -> NoReturn:
    fail(Kind.UNSUPPORTED_OP, STAGE, f"{message} is not supported", at=operator.name, op=operator.op, hint=hint)


@converts("Conv")
def _conv(o: Operator) -> FrontendNode:
    return o.node(
        "Conv",
        stride=list(o.attrs.get("strides", (1, 1))),
        pad=_pads(o),
        dilation=list(o.attrs.get("dilations", (1, 1))),
        groups=o.attrs.get("group", 1),
    )


@converts("BatchNormalization")
def _batch_norm(o: Operator) -> FrontendNode:
    if o.attrs.get("training_mode") or (o.opset < 7 and not o.attrs.get("is_test")):
        _refuse(o, "training mode")
    if not o.attrs.get("spatial", 1):
        _refuse(o, "spatial=0")
    return o.node("BatchNorm", eps=o.attrs.get("epsilon", 1e-5))


@converts("LRN")
def _lrn(o: Operator) -> FrontendNode:
    given = {name: o.attrs[name] for name in ("alpha", "beta", "bias") if name in o.attrs}
    return o.node("LRN", size=o.attrs["size"], **given)


_RENAMED = {"Sum": "add", "Div": "trunc_div", "Reciprocal": "recip", "Where": "where"}


@converts("Add", "Sum", "Sub", "Mul", "Div", "Max", "Min", "Where")
@converts("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Erf", "Floor", "Ceil", "Reciprocal")
def _elementwise(o: Operator) -> FrontendNode:
    if o.attrs.get("broadcast") and o.opset < 7:
        _refuse(o, "the broadcast attribute of opset < 7")
    return o.node("Elementwise", _RENAMED.get(o.op, o.op.lower()))


@converts("MaxPool", "AveragePool")
def _pool(o: Operator) -> FrontendNode:
    kernel = list(o.attrs["kernel_shape"])
    attrs: Attributes = {
        "kernel": kernel,
        "stride": list(o.attrs.get("strides", [1] * len(kernel))),
        "pad": _pads(o),
        "dilation": list(o.attrs.get("dilations", [1] * len(kernel))),
        "ceil_mode": bool(o.attrs.get("ceil_mode", 0)),
    }
    if o.op == "MaxPool":
        return o.node("Pool", "max", **attrs)
    return o.node("Pool", "avg", **attrs, count_include_pad=bool(o.attrs.get("count_include_pad", 0)))


@converts("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(o: Operator) -> FrontendNode:
    return o.node("GlobalPool", "max" if o.op == "GlobalMaxPool" else "avg")


@converts("Gemm")
def _gemm(o: Operator) -> FrontendNode:
    return o.node(
        "GEMM",
        trans_a=bool(o.attrs.get("transA", 0)),
        trans_b=bool(o.attrs.get("transB", 0)),
        alpha=o.attrs.get("alpha", 1.0),
        beta=o.attrs.get("beta", 1.0),
    )


@converts("MatMul")
def _matmul(o: Operator) -> FrontendNode:
    return o.node("MatMul")


@converts("Softmax")
def _softmax(o: Operator) -> FrontendNode:
    """Before opset 13, the axes from `axis` on are flattened into one."""
    flatten = o.opset < 13
    return o.node("Softmax", axis=o.attrs.get("axis", 1 if flatten else -1), flatten=flatten)


@converts("ArgMax", "ArgMin")
def _arg_reduce(o: Operator) -> FrontendNode:
    """ONNX does not define the result for NaN; here NaN is the extremum, as in NumPy."""
    return o.node(
        "ArgReduce",
        o.op[3:].lower(),
        axis=o.attrs.get("axis", 0),
        keepdims=bool(o.attrs.get("keepdims", 1)),
        select_last_index=bool(o.attrs.get("select_last_index", 0)),
    )


@converts("Reshape")
def _reshape(o: Operator) -> FrontendNode:
    shape = o.attrs["shape"] if o.opset < 5 else o.constant(1, "the shape").tolist()
    return o.node("Reshape", inputs=o.inputs[:1], shape=list(shape), allow_zero=bool(o.attrs.get("allowzero", 0)))


@converts("Squeeze", "Unsqueeze")
def _squeeze(o: Operator) -> FrontendNode:
    axes = o.attrs.get("axes") if o.opset < 13 else None
    if axes is None and len(o.inputs) > 1:
        axes = o.constant(1, "the list of axes").tolist()
    attrs = {} if axes is None else {"axes": list(axes)}
    return FrontendNode(o.op, o.name, o.inputs[:1], o.outputs, attrs=attrs)


@converts("Flatten")
def _flatten(o: Operator) -> FrontendNode:
    return o.node("Flatten", axis=o.attrs.get("axis", 1))


@converts("Transpose")
def _transpose(o: Operator) -> FrontendNode:
    return o.node("Transpose", perm=list(o.attrs.get("perm", ())))


@converts("Concat")
def _concat(o: Operator) -> FrontendNode:
    return o.node("Concat", axis=o.attrs.get("axis", 1) if o.opset < 4 else o.attrs["axis"])


@converts("Identity")
def _identity(o: Operator) -> FrontendNode:
    return o.node("Identity")


@converts("Dropout")
def _dropout(o: Operator) -> FrontendNode:
    """The identity, as in inference."""
    if len(o.inputs) > 2 and o.inputs[2] and o.constant(2, "training_mode").any():
        _refuse(o, "training mode")
    return o.node("Identity", inputs=o.inputs[:1])


def _constant(o: Operator) -> np.ndarray:
    (kind, value), *_ = o.attrs.items()
    dtypes = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if kind != "value" and kind not in dtypes:
        _refuse(o, f"the attribute {kind}")
    return np.asarray(value, dtypes.get(kind))


def _constant_of_shape(o: Operator) -> np.ndarray:
    value = np.asarray(o.attrs.get("value", np.zeros(1, np.float32)))
    shape = o.constant(0, "the shape").tolist()
    with memory_for(math.prod(shape) * value.itemsize, STAGE, "the constant", at=o.name, shape=shape):
        return np.full(shape, value.reshape(-1)[0])


EVALUATORS: Mapping[str, Callable[[Operator], np.ndarray]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
}
