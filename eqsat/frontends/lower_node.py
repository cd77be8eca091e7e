"""A node of Frontend IR and its inputs → its results, as lazy tensors. Errors name the node."""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from eqsat.frontends.onnx.operator_table import LOWERINGS, Lowering
from eqsat.frontends.ops import OPS, supported_ops
from eqsat.tensor import Tensor, tagged
from ir.diagnostics import EqsatError, Kind, fail
from ir.frontend import STAGE, FrontendNode
from ir.grammar import with_count
from ir.serde import from_builtins

Values = dict[str, Tensor | None]
"""Lazy tensors by name; None under the name "", which leaves an input out."""

RESULTS = "results"
"""The keyword of a lowering that receives the number of the node's outputs; no attribute."""

TOGETHER = "attributes"
"""The keyword of a lowering that receives all attributes as one msgspec.Struct, whose fields they are."""


def lower_nodes(nodes: Sequence[FrontendNode], values: Values) -> None:
    """Adds the results of nodes to `values`, in order. The results that no lowering computes stay away."""
    for node in nodes:
        with tagged(node.tag or node.name or node.op):
            results = lower_node(node, [read_value(values, name, node.name) for name in node.inputs])
        values |= {name: result for name, result in zip(node.outputs, results, strict=False) if name}


def read_value(values: Mapping[str, Tensor | None], name: str, at: str) -> Tensor | None:
    """The tensor of this name. Raises EqsatError, UnsupportedOp, for an output that no lowering computes."""
    if name not in values:
        fail(Kind.UNSUPPORTED_OP, STAGE, f"{name!r} is not computed: the op has fewer outputs here", at=at)
    return values[name]


def lower_node(node: FrontendNode, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """The node's results, or its first ones.

    Raises:
        EqsatError: UnsupportedOp for an op without a lowering, MalformedGraph for inputs or attributes that do not
            fit the op, and errors of the uops' type rules; all name the node.
    """
    lowering = _lowering(node)
    arguments = {**node.attrs} if node.fn is None else {"fn": node.fn, **node.attrs}
    try:
        _check_operands(node, lowering, inputs)
        result = lowering(*inputs, **_attributes(node, lowering, arguments))
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
    return result if isinstance(result, tuple) else (result,)


def _lowering(node: FrontendNode) -> Lowering:
    lowering = OPS.get(node.op) or LOWERINGS.get(node.op)
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
    return lowering


def _check_operands(node: FrontendNode, lowering: Lowering, inputs: Sequence[Tensor | None]) -> None:
    """Checks the number of inputs, and that no mandatory input is absent. An input in front of a mandatory one may be
    left out if its annotation allows None."""
    places = [p for p in _parameters(lowering) if p.kind is not p.KEYWORD_ONLY]
    many = any(p.kind is p.VAR_POSITIONAL for p in places)
    least = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in places)
    absent = [p.name for p, given in zip(places, [*inputs, *[None] * least], strict=False) if given is None]
    needed = {p.name for p in places[:least]} if absent else ()
    missing = [name for name in absent if name in needed and not _may_be_none(_hints(lowering).get(name))]
    if missing or (len(inputs) > len(places) and not many):
        wanted = f"{least} to {len(places)} inputs" if least < len(places) and not many else with_count(least, "input")
        fail(
            Kind.MALFORMED_GRAPH,
            STAGE,
            f"takes {wanted}{' or more' if many else ''}" + (f", {missing[0]!r} is missing" if missing else ""),
            op=node.op,
            expected=[p.name for p in places],
        )


def _may_be_none(annotation: Any) -> bool:
    return type(None) in typing.get_args(annotation)


def _attributes(node: FrontendNode, lowering: Lowering, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, converted to the types of the lowering's keywords."""
    keywords = {p.name: p for p in _parameters(lowering) if p.kind is p.KEYWORD_ONLY}
    counted = {RESULTS: len(node.outputs)} if keywords.pop(RESULTS, None) else {}
    if TOGETHER in keywords:
        fields = inspect.signature(_hints(lowering)[TOGETHER]).parameters
        checked = _check_attributes(node, given, fields, typing.get_type_hints(_hints(lowering)[TOGETHER]))
        return {TOGETHER: _hints(lowering)[TOGETHER](**checked), **counted}
    return {**_check_attributes(node, given, keywords, _hints(lowering)), **counted}


def _check_attributes(
    node: FrontendNode, given: Mapping[str, Any], keywords: Mapping[str, inspect.Parameter], types: Mapping[str, Any]
) -> dict[str, Any]:
    """The attributes, converted to these types."""
    unknown = [name for name in given if name not in keywords]
    absent = [name for name, p in keywords.items() if p.default is p.empty and name not in given]
    if unknown or absent:
        message = f"has no attribute {unknown[0]!r}" if unknown else f"needs the attribute {absent[0]!r}"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, op=node.op, hint=", ".join(keywords))
    checked: dict[str, Any] = {}
    for name, value in given.items():
        try:
            checked[name] = from_builtins(value, types[name])
        except msgspec.ValidationError as error:
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the attribute {name!r}: {error}", op=node.op, found=value)
    return checked


@cache
def _parameters(lowering: Lowering) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(lowering).parameters.values())


@cache
def _hints(lowering: Lowering) -> dict[str, Any]:
    return typing.get_type_hints(lowering)
