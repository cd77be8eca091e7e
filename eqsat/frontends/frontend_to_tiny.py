"""Frontend IR → Tiny IR: the nodes become lazy tensors (`eqsat.frontends.lower_node`), and these a Tiny graph."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsat import tensor
from eqsat.failure.internal_error import public_call
from eqsat.frontends.lower_node import Values, lower_nodes, read_value
from eqsat.frontends.onnx import operators as operators  # registers the lowerings of ONNX's operators
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import Kind, fail
from ir.dtype import dtype
from ir.frontend import STAGE, FrontendGraph, FrontendNode, TensorInfo
from ir.tiny.dims import require_sizes


@public_call()
def frontend_to_tiny(
    graph: FrontendGraph, dims: Mapping[str, int], constants: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The model as a Tiny graph with bound sizes, and its constants by tensor_id, which share the arrays given.

    Raises:
        EqsatError: UnsupportedOp for an op without a lowering, UnboundDim for a size without a value, errors of the
            uops' type rules, with the node, and errors for tensors that differ from the graph's declaration.
    """
    require_sizes([symbol for symbol in graph.symbols if symbol not in dims], STAGE)
    values: Values = {"": None}
    arguments = []
    for name in (item.tensor for item in graph.signature.inputs):
        info = graph.tensors[name]
        if name in constants:
            values[name] = Tensor("INPUT", (), {"storage": "const_pool", "tensor_id": name}, constants[name])
        else:
            shape = [dims[size] if isinstance(size, str) else size for size in info.shape]
            argument = tensor.input(name, shape, info.dtype)
            values[name] = argument
            arguments.append(argument)
    for node in graph.graph:
        lower_nodes([node], values)
        for name in node.outputs:
            if name in values:
                _check_declared(node, values[name], graph.tensors.get(name), dims)
    outputs = [read_value(values, output.tensor, output.tensor) for output in graph.signature.outputs]
    return tensor_to_tiny(typing.cast("list[Tensor]", outputs), arguments)


def _check_declared(
    node: FrontendNode, result: Tensor | None, info: TensorInfo | None, dims: Mapping[str, int]
) -> None:
    """Raise unless the node's result has the declared dtype and shape; a symbol without a size fits any size."""
    if info is None or result is None:
        return
    declared = tuple(dims.get(size, size) if isinstance(size, str) else size for size in info.shape)
    agrees = len(declared) == result.ndim and all(
        isinstance(size, str) or size == actual for size, actual in zip(declared, result.shape, strict=True)
    )
    if not agrees or dtype(info.dtype) != result.dtype:
        fail(
            Kind.DTYPE_MISMATCH if agrees else Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            "the node makes another tensor than the graph declares",
            at=node.name,
            op=node.op,
            declared=f"{info.dtype}{list(declared)}",
            found=str(result.type),
        )
