"""A Tiny graph at many sizes: the graph at the largest sizes, and its numbers as functions of the sizes.

    %y: fp32[S, 64] = shrink(%x, lo=[S - 1, 0], …)        shape[0] = S, lo[0] = S - 1

A constant of integers, such as the positions P, P + 1, …, has a number, too: its first element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ir.dtype import TensorType
from ir.tiny.graph import Graph, Node, Ref, operand_types
from ir.tiny.node import Imm
from ir.tiny.size_expr import SizeExpr, Sizes
from ir.uop.args import ArgKind

Place = tuple[str | int, ...]
"""Where a number of a uop stands: ("shape", axis) of the result, (attribute, position, …), ("src", operand), FIRST."""
FIRST: Place = ("first element",)
Constants = Mapping[str, np.ndarray]
"""The values of constant inputs by tensor_id."""
Value = int | float | bool

_SIZED = (ArgKind.DIMS, ArgKind.PAIRS, ArgKind.SIZE)


class NodeBySizes(NamedTuple):
    """One uop, as it is at the largest sizes. numbers: the numbers that depend on sizes, by their places. A number that
    is missing is the same at all sizes."""

    node: Node
    numbers: Mapping[Place, SizeExpr]

    def number(self, place: Place, largest: int) -> SizeExpr:
        """The number at a place, which is `largest` at the largest sizes."""
        return self.numbers.get(place, SizeExpr(largest))

    def shape(self, largest: Sequence[int]) -> tuple[SizeExpr, ...]:
        """The shape of the value, which is `largest` at the largest sizes."""
        return tuple(self.number(("shape", axis), size) for axis, size in enumerate(largest))


@dataclass(frozen=True)
class GraphBySizes:
    """A program at all sizes from 1 to `sizes`, where every number of its graph is an expression of the sizes.

    graph, constants: the program at `sizes`, the largest ones. varying: the symbols whose sizes may be smaller. nodes:
    its uops, in order.
    """

    graph: Graph
    constants: Constants
    sizes: Sizes
    varying: tuple[str, ...]
    nodes: tuple[NodeBySizes, ...]

    def shape_of(self, ref: Ref) -> tuple[SizeExpr, ...]:
        """The shape of a value."""
        sized = next(sized for sized in self.nodes if sized.node.id == ref)
        return sized.shape(self.graph.types[ref].shape)

    def holds(self, sizes: Sizes) -> bool:
        """Whether every axis that depends on the sizes has an element at these sizes, and no more than at the largest
        ones; [8 - S] has more."""
        shapes = {expr for node in self.nodes for place, expr in node.numbers.items() if place[0] == "shape"}
        return all(0 < expr.at(sizes) <= expr.at(self.sizes) for expr in shapes)

    def difference(self, graph: Graph, constants: Constants, sizes: Sizes) -> str:
        """Why a graph is not this program at these sizes: the uop that differs. "" if it is."""
        if len(graph.nodes) != len(self.nodes) or graph.outputs != self.graph.outputs:
            return "the program has other uops"
        different = different_constant(constants, self.constants)
        if different:
            return f"the constant {different!r} depends on the sizes"
        for sized, own in zip(self.nodes, graph.nodes, strict=True):
            if form_of(sized.node) != form_of(own):
                return f"{own.label} `{own.id}` is another uop, or reads other values"
            element = element_of(own, graph.types)
            largest = numbers_of(sized.node, self.graph.types, self.constants)
            for place, found in numbers_of(own, graph.types, constants).items():
                expr = sized.numbers.get(place)
                expected = largest[place] if expr is None else value_of(expr, sizes, element, type(found))
                if not same_value(expected, found):
                    return f"{own.label} `{own.id}` has {found} for {expected} at {place[0]}"
        return ""


def form_of(node: Node) -> tuple[object, ...]:
    """All of a uop but its numbers: two bindings of a program have uops of the same forms."""
    kinds = {key: spec.kind for key, spec in node.op.args.items()}
    kept = {key: value for key, value in node.arg.items() if kinds[key] not in _SIZED}
    src = tuple(None if isinstance(operand, Imm) else operand for operand in node.src)
    return node.id, node.uop, src, tuple(kept.items()), node.barrier


def numbers_of(node: Node, types: Mapping[str, TensorType], constants: Constants) -> dict[Place, Value]:
    """The numbers of a uop that may depend on sizes, by their places."""
    numbers: dict[Place, Value] = {("shape", axis): size for axis, size in enumerate(types[node.id].shape)}
    for key, spec in node.op.args.items():
        if spec.kind in _SIZED and key in node.arg:
            numbers.update(_flat((key,), node.arg[key]))
    element = element_of(node, types)
    for position, operand in enumerate(node.src):
        if isinstance(operand, Imm):
            numbers["src", position] = rounded(operand.value, element)
    constant = constants.get(node.arg["tensor_id"]) if node.uop == "INPUT" else None
    if constant is not None and constant.dtype.kind in "iu" and constant.size:
        numbers[FIRST] = int(constant.flat[0])
    return numbers


def different_constant(smaller: Constants, largest: Constants) -> str:
    """The name of a constant that is not the first elements of the one at the largest sizes; "" if there is none. Of
    integers, the differences from the first element count."""
    return next((name for name in (smaller.keys() | largest.keys()) if not _begins(smaller, largest, name)), "")


def _begins(smaller: Constants, largest: Constants, name: str) -> bool:
    one, other = smaller.get(name), largest.get(name)
    if one is None or other is None or one is other:
        return one is other
    if one.dtype != other.dtype or one.ndim != other.ndim:
        return False
    first = other[tuple(map(slice, one.shape))]
    if first.shape == one.shape and one.size and one.dtype.kind in "iu" and one.flat[0] != first.flat[0]:
        one, first = one - one.flat[0], first - first.flat[0]
    return first.shape == one.shape and first.tobytes() == one.tobytes()


def value_of(expr: SizeExpr, sizes: Sizes, element: np.dtype[np.generic], kind: type) -> Value:
    """The value of an immediate or attribute at these sizes, as a Python number of this kind. An inverse is rounded to
    fp64 first, as Python's 1 / n is."""
    value = expr.at(sizes)
    if kind is not float:
        return value
    return rounded((1 / value if value else math.inf) if expr.inverted else float(value), element)


def rounded(value: Value, element: np.dtype[np.generic]) -> Value:
    """A float as an element of this dtype holds it."""
    if not isinstance(value, float):
        return value
    with np.errstate(all="ignore"):
        return float(np.asarray(value, element))


def same_value(one: Value, other: Value) -> bool:
    """Whether two numbers are equal and of one kind, where NaN equals NaN."""
    return type(one) is type(other) and (one == other or (one != one and other != other))


def element_of(node: Node, types: Mapping[str, TensorType]) -> np.dtype[np.generic]:
    """The dtype of the immediates of a uop; of a uop without immediates, that of its result."""
    operands = operand_types(node, types)
    found = (type_.dtype for operand, type_ in zip(node.src, operands, strict=True) if isinstance(operand, Imm))
    return np.dtype(next(found, types[node.id].dtype).numpy)


def _flat(place: Place, value: object) -> Iterator[tuple[Place, int]]:
    if isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _flat((*place, position), item)
    elif isinstance(value, int):
        yield place, value
