"""Proves that a graph of larger sizes computes a graph of smaller sizes, in the first elements of each axis.

Both graphs are one program at two bindings of its sizes. The claim for a value is: the elements of the large value
whose positions exist in the small value equal the small value. The claim holds for inputs that are padded at the ends
of their axes. If every uop keeps the claim, the claim holds for the outputs, whatever the padding contains. A uop that
reads padding to compute an element of the small value does not keep the claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.tiny.graph import Graph, Node
from ir.tiny.loop_graphs import body_of
from ir.tiny.reshape_groups import reshape_groups
from ir.uop.loop import loop_shape
from ir.uop.table import UOpKind
from ir.uop.types import axis_position
from ir.uop.view import index_map

STAGE = "padding"
Shapes = Sequence[tuple[int, ...]]


def check_restriction(small: Graph, large: Graph) -> None:
    """The proof for the two graphs.

    Raises:
        EqsatError: UnsupportedOp at the first uop that does not keep the claim, with its shapes in both graphs.
    """
    if len(small.nodes) != len(large.nodes) or small.outputs != large.outputs:
        message = "the program has other uops at the larger sizes, so padded arguments may change results"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, uops=[len(small.nodes), len(large.nodes)])
    for one, other in zip(small.nodes, large.nodes, strict=True):
        reason = _reason_against(one, other, _Sides(small, large, one, other))
        if reason:
            refuse_padding(
                reason,
                one,
                small=[str(type_) for type_ in small.operand_types(one)],
                large=[str(type_) for type_ in large.operand_types(other)] if other.op == one.op else [],
            )


def refuse_padding(reason: str, node: Node | None = None, **details: object) -> NoReturn:
    """Raises EqsatError, UnsupportedOp: padding would change results, at a uop if one is given."""
    hint = "call with sizes that are built exactly, or leave this dim out of when_missing="
    at, op = (None, None) if node is None else (node.id, node.label)
    fail(Kind.UNSUPPORTED_OP, STAGE, f"padded positions reach results: {reason}", at=at, op=op, hint=hint, **details)


class _Sides:
    """The shapes around one uop in both graphs. Operands that are immediates have the shape of the tensor beside."""

    def __init__(self, small: Graph, large: Graph, one: Node, other: Node) -> None:
        self.small: Shapes = [type_.shape for type_ in small.operand_types(one)]
        self.large: Shapes = [type_.shape for type_ in large.operand_types(other)]
        self.results = small.types[one.id].shape, large.types[other.id].shape
        self.types: tuple[Sequence[TensorType], Sequence[TensorType]] = (
            small.operand_types(one),
            large.operand_types(other),
        )

    @property
    def are_equal(self) -> bool:
        """Whether operands and result have the same shapes in both graphs."""
        small, large = self.results
        return small == large and list(self.small) == list(self.large)

    def grows(self, axis: int, operand: int = 0) -> bool:
        """Whether the operand's axis is longer in the large graph."""
        return self.small[operand][axis] != self.large[operand][axis]


def _reason_against(one: Node, other: Node, sides: _Sides) -> str:
    """Why the uop does not keep the claim; "" if it does."""
    if (one.id, one.uop, one.src) != (other.id, other.uop, other.src):
        return "the uop is another one, or reads other values, at the larger sizes"
    small, large = sides.results
    if len(small) != len(large) or any(size > longer for size, longer in zip(small, large, strict=True)):
        return "the result is not longer on every axis at the larger sizes"
    if sides.are_equal and one.arg == other.arg:
        return ""
    if one.op.kind is UOpKind.MOVEMENT:
        return _against_movement(one, other, sides)
    if one.op.kind is UOpKind.LOOP:
        return _against_loop(one, other, sides)
    if _without(one, "shape") != _without(other, "shape"):
        return "an attribute depends on the padded size"
    match one.op.kind:
        case UOpKind.REDUCE:
            axes = [axis_position(axis, len(sides.small[0])) for axis in one.arg["axes"]]
            return "the reduction combines them" if any(map(sides.grows, axes)) else ""
        case UOpKind.GATHER:
            axis = axis_position(one.arg["axis"], len(sides.small[0]))
            return "the index may point at them" if sides.grows(axis) else ""
        case UOpKind.SCATTER:
            axis = axis_position(one.arg["axis"], len(sides.small[0]))
            return "padded updates would be written" if sides.grows(axis, operand=1) else ""
    return ""  # elementwise; IOTA; a scan, of which an element reads the elements before it


def _against_loop(one: Node, other: Node, sides: _Sides) -> str:
    body, larger = body_of(one), body_of(other)
    if body is None or larger is None or _without(one, "graph", "trips") != _without(other, "graph", "trips"):
        return "the loop is another one at the larger sizes"
    trips = [loop_shape(types, node.arg).trips for node, types in zip((one, other), sides.types, strict=True)]
    if trips[0] != trips[1]:
        return "the loop makes a trip for each of them"
    check_restriction(body.graph, larger.graph)
    return ""


def _against_movement(one: Node, other: Node, sides: _Sides) -> str:
    (before,), (larger,), (after, result) = sides.small, sides.large, sides.results
    match one.uop:
        case "RESHAPE":
            groups = reshape_groups([*zip(before, larger, strict=True)], [*zip(after, result, strict=True)])
            return "" if all(group.keeps_order for group in groups) else "the reshape moves elements behind them"
        case "EXPAND":
            axes = zip(before, larger, after, result, strict=True)
            fits = all((a, b) == (c, d) or a == b == 1 for a, b, c, d in axes)
            return "" if fits and _without(one, "result_shape") == _without(other, "result_shape") else _DEPENDS
        case "PAD":
            pads = zip(one.arg["pad"], other.arg["pad"], before, larger, strict=True)
            fits = all(low == lower and (a == b or not high) for (low, high), (lower, _), a, b in pads)
            fits = fits and _without(one, "pad") == _without(other, "pad")
            return "" if fits else "the pad behind the axis lies before them"
        case "SHRINK":
            fits = _without(one, "hi") == _without(other, "hi")
            return "" if fits else _DEPENDS
        case "FLIP":
            flipped = [axis_position(axis, len(before)) for axis in one.arg["axes"]]
            return "the flip reads them first" if any(map(sides.grows, flipped)) else ""
        case "VIEW":
            return "" if index_map(one.arg, len(after)) == index_map(other.arg, len(after)) else _DEPENDS
    return "" if one.arg == other.arg else _DEPENDS  # PERMUTE; POOL, of which a window reads forward from its start


_DEPENDS = "the positions that are read depend on the padded size"


def _without(node: Node, *keys: str) -> Mapping[str, object]:
    return {key: value for key, value in node.arg.items() if key not in keys}
