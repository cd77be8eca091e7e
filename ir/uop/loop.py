"""The uop LOOP: a graph that runs once per trip, and the type of each of its results.

    h = initial                                        a state per `states`
    for t in 0, 1, …, trips - 1:                       trips - 1, …, 1, 0 if `reverse`
        h, y[t] = graph(h, x[t], captured)             an element x[t] per `scanned`
    results: h after the last trip, then y

LOOPs that differ only in `result` are one loop; each is one of its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.uop.loop_body import LoopBody
from ir.uop.types import STAGE, Types, sizes


class LoopShape(NamedTuple):
    """The roles that the attributes of a LOOP give to its operands: first `states` of them, then `scanned`, then
    captured ones."""

    trips: int
    states: int
    scanned: int


def loop_shape(src: Sequence[TensorType], arg: Mapping[str, Any]) -> LoopShape:
    """The number of trips: the first size of every scanned operand, or the attribute `trips`.

    Raises:
        EqsatError: MalformedGraph, if there are fewer operands than stated, or if no trip is made or none is stated;
            AxisSizeMismatch, if scanned operands differ in their first size.
    """
    states, scanned = arg["states"], arg["scanned"]
    if states + scanned > len(src):
        message = f"{states} states and {scanned} scanned operands, but {len(src)} operands"
        fail(Kind.MALFORMED_GRAPH, STAGE, message)
    lengths = {type_.shape[:1] for type_ in src[states : states + scanned]}
    if "trips" in arg:
        lengths.add(sizes((arg["trips"],)))
    if not lengths:
        fail(Kind.MALFORMED_GRAPH, STAGE, "nothing says how often the loop runs", hint="the attribute `trips`")
    if () in lengths or len(lengths) > 1:
        fail(
            Kind.AXIS_SIZE_MISMATCH,
            STAGE,
            "scanned operands, and `trips`, have one first size: that of the trips",
            shapes=[type_.shape for type_ in src[states : states + scanned]],
        )
    ((trips,),) = lengths
    if trips < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, "a loop makes at least one trip", hint="after no trip, states are as before")
    return LoopShape(trips, states, scanned)


def loop(src: Types, arg: Mapping[str, Any]) -> TensorType:
    """Result number `result`: the type of that state, or the body's result below a first axis of `trips`."""
    body, number = arg["graph"], arg["result"]
    if not isinstance(body, LoopBody):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"there is no graph @{body}")
    shape = loop_shape(src, arg)
    given = [*src[: shape.states], *map(element_type, src[shape.states : shape.states + shape.scanned])]
    given += src[shape.states + shape.scanned :]
    if len(given) != len(body.parameters):
        message = f"@{body} takes {len(body.parameters)} operands, found {len(given)}"
        fail(Kind.MALFORMED_GRAPH, STAGE, message)
    for place, (wanted, argument) in enumerate(zip(body.parameters, given, strict=True)):
        _require_same(wanted, argument, f"parameter {place} of @{body} takes {wanted}, found {argument}")
    if len(body.results) < shape.states:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"@{body} returns {len(body.results)} values, and has {shape.states} states")
    for place, (before, after) in enumerate(zip(given[: shape.states], body.results, strict=False)):
        _require_same(before, after, f"state {place} is {before} before a trip of @{body}, and {after} after it")
    if not 0 <= number < len(body.results):
        message = f"@{body} returns {len(body.results)} values; there is no result {number}"
        fail(Kind.MALFORMED_GRAPH, STAGE, message)
    result = body.results[number]
    if number < shape.states:
        return TensorType.of(result.dtype, result.shape)
    return TensorType.of(result.dtype, (shape.trips, *result.shape))


def element_type(scanned: TensorType) -> TensorType:
    """The type of one element of a scanned operand."""
    return TensorType(scanned.dtype, scanned.shape[1:], scanned.names[1:])


def _require_same(wanted: TensorType, given: TensorType, message: str) -> None:
    if wanted.dtype != given.dtype:
        fail(Kind.DTYPE_MISMATCH, STAGE, message, hint="insert a CAST")
    if wanted.shape != given.shape:
        fail(Kind.AXIS_SIZE_MISMATCH, STAGE, message)
