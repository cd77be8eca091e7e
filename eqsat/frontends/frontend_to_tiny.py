"""Frontend IR → Tiny IR: each node has the lowering of its op (`eqsat.frontends.ops`); errors name the node."""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np

from eqsat import tensor
from eqsat.failure.internal_error import public_call
from eqsat.frontends.ops import OPS, supported_ops
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import dtype
from ir.frontend import STAGE, FrontendGraph, FrontendNode, TensorInfo
from ir.grammar import with_count


@public_call()
def frontend_to_tiny(
    graph: FrontendGraph, dims: Mapping[str, int], constants: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The model as a Tiny graph with bound sizes, and its constants by tensor_id.

    Raises:
        EqsatError: UnsupportedOp for an op without a lowering, UnboundDim for a size without a value, errors of the
            uops' type rules, with the node, and errors for tensors that differ from the graph's declaration.
    """
    _require_sizes(graph, dims)
    values: dict[str, Tensor | None] = {"": None}
    arguments = []
    for name in (item.tensor for item in graph.signature.inputs):
        info = graph.tensors[name]
        if name in constants:
            values[name] = tensor.constant(constants[name], name=name)
        else:
            shape = [dims[size] if isinstance(size, str) else size for size in info.shape]
            argument = tensor.input(name, shape, info.dtype)
            values[name] = argument
            arguments.append(argument)
    for node in graph.graph:
        inputs = [_value(values, name, node.name) for name in node.inputs]
        result = lower_node(node, inputs)
        _check_declared(node, result, graph.tensors.get(node.outputs[0]), dims)
        values |= {name: result for name in node.outputs[:1] if name}
    outputs = [_value(values, output.tensor, output.tensor) for output in graph.signature.outputs]
    return tensor_to_tiny(typing.cast("list[Tensor]", outputs), arguments)


def lower_node(node: FrontendNode, inputs: Sequence[Tensor | None]) -> Tensor:
    """The node's first result.

    Raises:
        EqsatError: UnsupportedOp for an op without a lowering, MalformedGraph for inputs or attributes that do not
            fit the op, and errors of the uops' type rules; all name the node.
    """
    lowering = OPS.get(node.op)
    if lowering is None:
        names = {name.lower(): name for name in OPS}
        near = difflib.get_close_matches(node.op.lower(), names, 1)
        fail(
            Kind.UNSUPPORTED_OP,
            STAGE,
            f"no lowering for {node.op!r}" + (f"; did you mean {names[near[0]]!r}?" if near else ""),
            at=node.name,
            op=node.op,
            supported=supported_ops(),
        )
    arguments = {**node.attrs} if node.fn is None else {"fn": node.fn, **node.attrs}
    try:
        return lowering(*_operands(node, inputs), **_attributes(node, arguments))
    except EqsatError as error:
        raise EqsatError(
            msgspec.structs.replace(diagnostic, message=f"{diagnostic.message} (in {node.op})", at=node.name)
            for diagnostic in error.diagnostics
        ) from None
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError) as error:
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"inputs or attributes do not fit the op: {error}",
            at=node.name,
            op=node.op,
            inputs=[str(operand.type) if operand is not None else "absent" for operand in inputs],
            attrs=node.attrs,
        )


def _operands(node: FrontendNode, inputs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The inputs, after a check of their number, and that no mandatory input is absent."""
    places = [p for p in _parameters(node.op) if p.kind is not p.KEYWORD_ONLY]
    many = any(p.kind is p.VAR_POSITIONAL for p in places)
    least = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in places)
    absent = [p.name for p, given in zip(places, [*inputs, *[None] * least], strict=False) if given is None]
    missing = [name for name in absent if name in {p.name for p in places[:least]}]
    if missing or (len(inputs) > len(places) and not many):
        wanted = f"{least} to {len(places)} inputs" if least < len(places) and not many else with_count(least, "input")
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"takes {wanted}{' or more' if many else ''}" + (f", {missing[0]!r} is missing" if missing else ""),
            op=node.op,
            expected=[p.name for p in places],
        )
    return inputs


def _attributes(node: FrontendNode, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, converted to the types of the lowering's keywords."""
    keywords = {p.name: p for p in _parameters(node.op) if p.kind is p.KEYWORD_ONLY}
    unknown = [name for name in given if name not in keywords]
    absent = [name for name, p in keywords.items() if p.default is p.empty and name not in given]
    if unknown or absent:
        message = f"has no attribute {unknown[0]!r}" if unknown else f"needs the attribute {absent[0]!r}"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op=node.op, hint=", ".join(keywords))
    checked = {}
    for name, value in given.items():
        try:
            checked[name] = msgspec.convert(value, _hints(node.op)[name])
        except msgspec.ValidationError as error:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the attribute {name!r}: {error}", op=node.op, found=value)
    return checked


@cache
def _parameters(op: str) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(OPS[op]).parameters.values())


@cache
def _hints(op: str) -> dict[str, Any]:
    return typing.get_type_hints(OPS[op])


def _value(values: Mapping[str, Tensor | None], name: str, at: str) -> Tensor | None:
    if name not in values:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"{name!r} is not the first output of its node: it is not computed", at=at)
    return values[name]


def _check_declared(node: FrontendNode, result: Tensor, info: TensorInfo | None, dims: Mapping[str, int]) -> None:
    """Raise unless the node's result has the declared dtype and shape; a symbol without a size fits any size."""
    if info is None:
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


def _require_sizes(graph: FrontendGraph, dims: Mapping[str, int]) -> None:
    if missing := tuple(symbol for symbol in graph.symbols if symbol not in dims):
        fail(
            Kind.UNBOUND_DIM,
            STAGE,
            f"no size is given for {', '.join(missing)}",
            hint=f"dims={{{missing[0]!r}: …}}",
            missing=missing,
        )
